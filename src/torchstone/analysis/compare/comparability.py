"""Do two Cases of one name compute the same thing? What speaks against it, and what only has to be said beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean

import msgspec

from torchstone.analysis.compare.inputs import CaseTrials, traits
from torchstone.core.figures import raw
from torchstone.core.fingerprints import Entries, fingerprint_of, furthest, repeats
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import AXES, AxisStage, Scalar, axes_of
from torchstone.core.schema.case import portable
from torchstone.core.schema.comparison import Differing
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.readings import gauge, other_cpu_cores, steal_share

_OTHER_SHARING = Statement("other_sharing")
_WORK = 0.01  # of the operations an item: more is another network, or other shapes
SHAPES = axes_of(AxisStage.BATCH, AxisStage.ITEM, AxisStage.GENERATION)  # what a step or an item consists of


class Comparability(msgspec.Struct, frozen=True):
    """`against`: why the two cannot be compared, None if they can. `labels`: under what they are read all the same."""

    against: Statement | None
    labels: tuple[Statement, ...]
    differing: tuple[Differing, ...]


def sameness(a: Sequence[CaseTrials], b: Sequence[CaseTrials]) -> Comparability:
    """Return what is to be said of the newest run of each side."""
    one, other = a[-1], b[-1]
    differing = tuple(_settings(one, other))
    against = next(_against(one, other), None)
    return Comparability(against, tuple(_labels(one, other, differing)), differing)


def shapes_differ(same: Comparability) -> bool:
    """Say whether a step of the one consists of something else than a step of the other."""
    return any(one.what in SHAPES for one in same.differing)


def _settings(a: CaseTrials, b: CaseTrials) -> Iterator[Differing]:
    """Yield the settings that differ: what they do to the result is what matters about them."""
    mine, yours = traits(a.case), traits(b.case)
    others = (name for name in a.case.configuration if name in b.case.configuration)  # another tool's
    for name in dict.fromkeys((*AXES, *others)):
        if mine[name] == yours[name]:
            continue
        axis, matters = AXES.get(name), None
        if name == "batch_size":
            matters = Statement("steps_differ")
        elif name in SHAPES:
            matters = Statement("items_differ")
        elif axis is not None and axis.changes_result:
            matters = Statement("result_changes")
        yield Differing(name, mine[name], yours[name], matters)
    for name in ("count", "nodes"):
        if mine[name] != yours[name]:
            yield Differing(f"{name} of devices", mine[name], yours[name], _OTHER_SHARING)


def _against(a: CaseTrials, b: CaseTrials) -> Iterator[Statement]:
    """Yield what makes a comparison meaningless, worst first."""
    for side, taken in (("baseline", a), ("candidate", b)):
        if not taken.trials:
            ends = [t.outcome for t in taken.failed]
            values = {"status": str(ends[0].status), "message": (ends[0].message or "")[:120]} if ends else {}
            yield Statement("no_trial.failed" if ends else "no_trial", {"side": side, **values})
    for side, taken in (("baseline", a), ("candidate", b)):
        case_id = taken.case.case_id
        wrong = [f for f in taken.run.findings if f.subject == case_id and f.severity == Severity.ERROR]
        if wrong:
            yield Statement("invalid", {"side": side, "check": wrong[0].check, "message": wrong[0].message})
    mine, yours = traits(a.case), traits(b.case)
    if mine["data"] != yours["data"]:
        yield Statement("other_data", {"baseline": mine["data"], "candidate": yours["data"]})
    if a.case.workload.item != b.case.workload.item:
        yield Statement("other_items", {"baseline": a.case.workload.item, "candidate": b.case.workload.item})
    counts = [_fact(taken, "parameters") for taken in (a, b)]
    if None not in counts and counts[0] != counts[1]:
        yield Statement("other_model", {"baseline": counts[0], "candidate": counts[1]})
    work = [_work(taken) for taken in (a, b)]
    if not _reshaped(mine, yours) and work[0] and work[1] and abs(math.log(work[1] / work[0])) > _WORK:
        yield Statement("other_work", {"baseline": work[0], "candidate": work[1]})
    moved = _moved(a, b)
    if moved is not None and _should_agree(a, b, mine, yours):
        yield Statement("other_results", {"baseline": moved.one, "candidate": moved.other})


def _labels(a: CaseTrials, b: CaseTrials, settings: Sequence[Differing]) -> Iterator[Statement]:
    changed = [
        Statement(
            "setting_compared", {"setting": one.what, "baseline": str(one.baseline), "candidate": str(one.candidate)}
        )
        for one in settings
        if one.matters != _OTHER_SHARING
    ]
    if changed:
        yield Statement("settings_compared", {"settings": tuple(changed)})
    for what, key in (("other_code", _code), ("other_weights", lambda taken: traits(taken.case)["fixed"])):
        if key(a) != key(b) and None not in (key(a), key(b)):
            yield Statement(what)
    moved = _moved(a, b)
    if moved is not None and not any(one.matters for one in settings):
        yield Statement("first_results_differ", {"baseline": moved.one, "candidate": moved.other})


def _code(taken: CaseTrials) -> str | None:
    """Return the digest of the user's own model file."""
    return taken.run.head.code.get(taken.case.workload.model) or next(
        (sha for model, sha in taken.run.head.code.items() if portable(model) == portable(taken.case.workload.model)),
        None,
    )


def _fact(taken: CaseTrials, name: str) -> float | None:
    values = (getattr(t.facts, name) for t in taken.trials)
    return next((value for value in values if value is not None), None)


def _work(taken: CaseTrials) -> float | None:
    """Return the floating-point operations of one item."""
    for trial, known in zip(taken.trials, taken.figures, strict=True):
        found, items = known.values.get("flops_per_step"), raw(trial, "items")
        if found and items and max(items) > 0.0:
            return found / max(items)
    return None


def _reshaped(mine: Mapping[str, Scalar], yours: Mapping[str, Scalar]) -> bool:
    return any(mine[name] != yours[name] for name in (*SHAPES, "gradient_checkpointing", "grad_accumulation"))


def _should_agree(a: CaseTrials, b: CaseTrials, mine: Mapping[str, Scalar], yours: Mapping[str, Scalar]) -> bool:
    """Say whether nothing that is known explains another result: the card, torch, seed, settings and code are equal.

    Settings for speed alone count too: a compiled model draws other random numbers for its dropout.
    """
    return (
        mine == yours
        and _processor(a) == _processor(b)
        and a.run.head.machine.software.get("torch") == b.run.head.machine.software.get("torch")
        and a.run.head.procedure.seed == b.run.head.procedure.seed
        and _code(a) == _code(b)
    )


def _processor(taken: CaseTrials) -> str | None:
    place, machine = taken.case.placement, taken.run.head.machine
    device = machine.device(place.device, place.index)
    return device.name if device is not None else machine.host.processor


def _moved(a: CaseTrials, b: CaseTrials) -> Entries | None:
    """Return the two entries of the fingerprints that lie furthest apart; None where these agree or are not known."""
    far = furthest(fingerprint_of(a.trials), fingerprint_of(b.trials))
    return far if far is not None and far.differ and repeats(a.trials, b.trials) else None


_BOTH = Statement("both_disturbed")
_SOFTWARE = {
    "torch": Statement("other_kernels"),
    "python": None,
}
_PROCEDURE = {
    "heap": Statement("other_heap"),
    "isolation": Statement("other_isolation"),
    "settings": Statement("other_chosen_settings"),
    "seed": Statement("other_seed"),
    "nvtx": Statement("nvtx_costs_time"),
    "pin_threads": Statement("pinning_changes_timing"),
    "cpu_affinity": Statement("other_cores"),
    "warmup": None, "warmup_budget_s": None, "iterations": None, "epochs": None, "target": None, "budget_s": None,
    "min_steps": None, "trials": None, "within_s": None, "aim": None, "percentiles_s": None, "telemetry_period_s": None,
}  # fmt: skip


class _MachineReading(msgspec.Struct, frozen=True):
    """A condition of the machine while it measured. `least`: a smaller difference is not worth a line."""

    what: str
    of: Callable[[Trial], float | None]
    unit: str
    least: float
    relative: bool = False
    bad_from: float | None = None
    matters: Statement | None = None
    disturbs: bool = False  # a run, and is no property of its machine


def _gauge(name: str) -> Callable[[Trial], float | None]:
    return lambda trial: found[0] if (found := gauge(trial, name)) is not None else None


_READINGS = (
    _MachineReading(
        "other processes",
        other_cpu_cores,
        "cores",
        0.05,
        bad_from=0.15,
        matters=Statement("others_were_busy"),
        disturbs=True,
    ),
    _MachineReading(
        "steal",
        steal_share,
        "ratio",
        0.01,
        bad_from=0.02,
        matters=Statement("cpu_time_stolen"),
        disturbs=True,
    ),
    _MachineReading(
        "throttled",
        _gauge("device_throttled"),
        "ratio",
        0.02,
        bad_from=0.05,
        matters=Statement("one_side_throttled"),
    ),
    _MachineReading("device clock", _gauge("device_clock_hz"), "Hz", 0.02, relative=True),
    _MachineReading("device temperature", _gauge("device_temperature_c"), "°C", 5.0),
    _MachineReading("CPU clock", _gauge("host_clock_hz"), "Hz", 0.05, relative=True),
)


def same_machine(a: CaseTrials, b: CaseTrials) -> bool:
    """Say whether both were measured on one device of one computer, as far as the records tell."""
    ours = [(t.run.head.machine.host.hostname, t.run.head.machine.host.processor, _card(t)) for t in (a, b)]
    return ours[0] == ours[1]


def differing(a: CaseTrials, b: CaseTrials) -> list[Differing]:
    """Return everything that differs beside settings and figures, what matters first."""
    left_out = _changed("disturbed trials left out", a.disturbed, b.disturbed)
    found = [*_machine(a, b), *_procedure(a, b), *_conditions(a, b), *left_out, *_findings(a, b)]
    return sorted(found, key=lambda one: one.matters is None)


def disturbed(side: CaseTrials, other: CaseTrials, name: str) -> Statement | None:
    """Return what disturbed the side of that name from outside, and not the other, if anything did."""
    for reading in _READINGS:
        means = _means(reading, side, other) if reading.disturbs else None
        if means is not None and reading.bad_from is not None and means[0] > reading.bad_from >= means[1]:
            found = "worse_side_disturbed_cores" if reading.unit == "cores" else "worse_side_disturbed"
            return Statement(found, {"side": name, "what": reading.what, "value": means[0]})
    return None


def _card(taken: CaseTrials) -> tuple[str, object]:
    place = taken.case.placement
    device = taken.run.head.machine.device(place.device, place.index)
    return place.device, (device.uuid or (device.name, place.index)) if device is not None else place.index


def _machine(a: CaseTrials, b: CaseTrials) -> Iterator[Differing]:
    one, other = (taken.run.head.machine for taken in (a, b))
    yield from _changed("host", one.host.hostname, other.host.hostname)
    places = [taken.case.placement for taken in (a, b)]
    devices = [m.device(p.device, p.index) for m, p in zip((one, other), places, strict=True)]
    mine, yours = (d.name if d else str(p) for d, p in zip(devices, places, strict=True))
    yield from _changed("device", mine, yours)
    for name in ("driver", "runtime"):
        yield from _changed(name, getattr(devices[0], name, None), getattr(devices[1], name, None))
    for name in ("processor", "logical_cores", "memory_bytes", "platform"):
        yield from _changed(name, getattr(one.host, name), getattr(other.host, name))
    for name in dict.fromkeys((*_SOFTWARE, *one.software, *other.software)):
        equal_device = places[0].device == places[1].device
        matters = _SOFTWARE.get(name) if equal_device else None
        yield from _changed(name, one.software.get(name), other.software.get(name), matters)
    yield from _changed("governor", one.host.governor, other.host.governor, Statement("other_governors"))
    yield from _mapping(one.settings, other.settings)


def _mapping(one: Mapping[str, str | None], other: Mapping[str, str | None]) -> Iterator[Differing]:
    for name in dict.fromkeys((*one, *other)):
        yield from _changed(name, one.get(name), other.get(name), Statement("timings_may_change"))


def _procedure(a: CaseTrials, b: CaseTrials) -> Iterator[Differing]:
    one, other = (msgspec.structs.asdict(taken.run.head.procedure) for taken in (a, b))
    for name, matters in _PROCEDURE.items():
        yield from _changed(name, one[name], other[name], matters)
    yield from _changed("tool", _tool(a), _tool(b), Statement("other_tools"))
    yield from _changed("successful trials", len(a.trials), len(b.trials))


def _tool(taken: CaseTrials) -> object:
    return next((trial.facts.imported_from for trial in taken.trials if trial.facts.imported_from is not None), None)


def _changed(what: str, one: object, other: object, matters: Statement | None = None) -> Iterator[Differing]:
    if one != other:
        mine, yours = (value if isinstance(value, Scalar) else str(value) for value in (one, other))
        yield Differing(what, mine, yours, matters)


def _conditions(a: CaseTrials, b: CaseTrials) -> Iterator[Differing]:
    for reading in _READINGS:
        if (means := _means(reading, a, b)) is None:
            continue
        mine, yours = means
        apart = abs(mine - yours) / (max(abs(mine), abs(yours)) or 1.0) if reading.relative else abs(mine - yours)
        if apart < reading.least and (reading.bad_from is None or min(mine, yours) <= reading.bad_from):
            continue
        bad = [reading.bad_from is not None and mean > reading.bad_from for mean in (mine, yours)]
        matters = _BOTH if all(bad) else reading.matters if any(bad) else None
        yield Differing(reading.what, mine, yours, matters, reading.unit)


def _means(reading: _MachineReading, a: CaseTrials, b: CaseTrials) -> tuple[float, float] | None:
    known = [[v for t in taken.trials if (v := reading.of(t)) is not None] for taken in (a, b)]
    return (fmean(known[0]), fmean(known[1])) if all(known) else None


def _findings(a: CaseTrials, b: CaseTrials) -> Iterator[Differing]:
    """Yield what a check doubts about one side alone."""
    doubts: list[dict[str, Finding]] = []
    for taken in (a, b):
        case_id = taken.case.case_id
        own = [f for f in taken.run.findings if f.subject == case_id and f.severity == Severity.WARNING]
        doubts.append({f.check: f for f in own if f.check not in {r.what for r in _READINGS}})
    for check in dict.fromkeys((*doubts[0], *doubts[1])):
        if (check in doubts[0]) != (check in doubts[1]):
            yield Differing(check, doubts[0].get(check), doubts[1].get(check), Statement("one_side_suspect"))
    failed = [len(taken.failed) for taken in (a, b)]
    if failed[0] != failed[1]:
        yield Differing("failed trials", failed[0], failed[1], Statement("failed_left_out"))


def lengths_apart(a: Sequence[CaseTrials], b: Sequence[CaseTrials]) -> tuple[float, float] | None:
    """Return (seconds that lie between two sides of one machine, the same in lengths of the longer); None if unknown.

    Negative where they overlap: then their trials were taken in turn.
    """
    spans = []
    for side in (a, b):
        moments = [(_seconds(t.started_utc), t.duration_s) for taken in side for t in taken.trials]
        known = [(begin, begin + length) for begin, length in moments if begin is not None]
        if not known:
            return None
        spans.append((min(begin for begin, _ in known), max(end for _, end in known)))
    (begin_a, end_a), (begin_b, end_b) = spans
    gap_s = max(begin_a, begin_b) - min(end_a, end_b)
    longer_s = max(end_a - begin_a, end_b - begin_b, 1.0)
    return gap_s, gap_s / longer_s


def _seconds(utc: str) -> float | None:
    try:
        return datetime.fromisoformat(utc).timestamp()
    except (ValueError, OverflowError):  # a record from elsewhere, or of the year 1
        return None

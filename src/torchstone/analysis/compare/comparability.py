"""Do two Cases of one name compute the same thing? What speaks against it, and what only has to be said beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.compare.matching import Taken, traits
from torchstone.core.figures import raw
from torchstone.core.fingerprints import Entries, fingerprint_of, furthest
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import AXES, AxisStage, Scalar, axes_of
from torchstone.core.schema.case import portable
from torchstone.core.schema.comparison import Differing
from torchstone.core.schema.estimate import Severity
from torchstone.core.units import significant

_WORK = 0.01  # of the operations an item: more is another network, or other shapes
SHAPES = axes_of(AxisStage.BATCH, AxisStage.ITEM, AxisStage.GENERATION)  # what a step or an item consists of


class Sameness(msgspec.Struct, frozen=True):
    """`against`: why the two cannot be compared, None if they can. `labels`: under what they are read all the same."""

    against: Statement | None
    labels: tuple[str, ...]
    differing: tuple[Differing, ...]


def sameness(a: Sequence[Taken], b: Sequence[Taken]) -> Sameness:
    """Return what is to be said of the newest run of each side."""
    one, other = a[-1], b[-1]
    differing = tuple(_settings(one, other))
    against = next(_against(one, other), None)
    return Sameness(against, tuple(_labels(one, other, differing)), differing)


def shapes_differ(same: Sameness) -> bool:
    """Say whether a step of the one consists of something else than a step of the other."""
    return any(one.what in SHAPES for one in same.differing)


def _settings(a: Taken, b: Taken) -> Iterator[Differing]:
    """Yield the settings that differ: what they do to the result is what matters about them."""
    mine, yours = traits(a.case), traits(b.case)
    for name, axis in AXES.items():
        if mine[name] == yours[name]:
            continue
        matters = None
        if name == "batch_size":
            matters = "steps differ in work: only figures per item are compared"
        elif name in SHAPES:
            matters = "items differ in work"
        elif axis.changes_result:
            matters = "it changes the result: check the quality"
        yield Differing(name, str(mine[name]), str(yours[name]), matters)
    for name in ("count", "nodes"):
        if mine[name] != yours[name]:
            yield Differing(f"{name} of devices", str(mine[name]), str(yours[name]), "another number shares the work")


def _against(a: Taken, b: Taken) -> Iterator[Statement]:
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


def _labels(a: Taken, b: Taken, settings: Sequence[Differing]) -> Iterator[str]:
    changed = [f"{one.what} {one.baseline} against {one.candidate}" for one in settings if one.what in AXES]
    if changed:
        yield "settings compared: " + ", ".join(changed)
    for what, key in (("other code", _code), ("other weights or sizes", lambda taken: traits(taken.case)["fixed"])):
        if key(a) != key(b) and None not in (key(a), key(b)):
            yield f"{what} under the same name"
    moved = _moved(a, b)
    if moved is not None and not any(one.matters for one in settings):
        yield f"first results differ ({significant(moved.one, 5)} and {significant(moved.other, 5)})"


def _code(taken: Taken) -> str | None:
    """Return the digest of the user's own model file."""
    return taken.run.head.code.get(taken.case.workload.model) or next(
        (sha for model, sha in taken.run.head.code.items() if portable(model) == portable(taken.case.workload.model)),
        None,
    )


def _fact(taken: Taken, name: str) -> float | None:
    values = (getattr(t.facts, name) for t in taken.trials)
    return next((value for value in values if value is not None), None)


def _work(taken: Taken) -> float | None:
    """Return the floating-point operations of one item."""
    for trial, known in zip(taken.trials, taken.figures, strict=True):
        found, items = known.values.get("flops_per_step"), raw(trial, "items")
        if found and items and max(items) > 0.0:
            return found / max(items)
    return None


def _reshaped(mine: Mapping[str, Scalar], yours: Mapping[str, Scalar]) -> bool:
    return any(mine[name] != yours[name] for name in (*SHAPES, "gradient_checkpointing", "grad_accumulation"))


def _should_agree(a: Taken, b: Taken, mine: Mapping[str, Scalar], yours: Mapping[str, Scalar]) -> bool:
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


def _processor(taken: Taken) -> str | None:
    place, machine = taken.case.placement, taken.run.head.machine
    device = machine.device(place.device, place.index)
    return device.name if device is not None else machine.host.processor


def _moved(a: Taken, b: Taken) -> Entries | None:
    """Return the two entries of the fingerprints that lie furthest apart; None where these agree or are not known."""
    far = furthest(fingerprint_of(a.trials), fingerprint_of(b.trials))
    return far if far is not None and far.differ else None

"""From stored readings to what may win: one offer a device and settings, and which of them is best."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.advice.choices import NEAR_THE_TOP
from torchstone.analysis.advice.in_rounds import PAIRED, InRounds, RoundLogs, round_logs
from torchstone.config.cli_flags import of_data, workload_flags
from torchstone.config.prices import Prices
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.estimates import interval_of
from torchstone.core.schema.advice import Statement, Value
from torchstone.core.schema.axis import AXES, AxisStage, Scalar, axes_of, scalar_word
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Estimate, Finding
from torchstone.core.schema.metric import memory_figures
from torchstone.core.schema.trial import FEWEST_UNDISTURBED
from torchstone.core.stats import best_of_many
from torchstone.core.stats.best_of_many import WITH_THE_BEST, Best
from torchstone.core.stats.comparing import Difference, VariancePart
from torchstone.core.stats.moderated import Prior
from torchstone.storage.measured import MeasuredCase

_GB = 1e9
_HOUR_S = 3600.0
_RATES = {Task.GENERATE: ("output_token_throughput", "token")}


class Criterion(msgspec.Struct, frozen=True):
    """`of`: a Case in a run → the value of each trial, None: has none; `figure`: whose multiple or inverse that is."""

    name: str
    of: Callable[[MeasuredCase], Sequence[float | None]]
    unit: Callable[[MeasuredCase], str]
    figure: Callable[[MeasuredCase], str]


def criterion(name: str, prices: Prices | None = None) -> Criterion:
    """Return the criterion of that name. Raises UsageError for `price` without prices."""
    if name == "price":
        if prices is None or not prices.offers:
            raise UsageError(
                "--by price needs the price per hour of each device: --prices FILE (example in docs/cost.md)"
            )
        table = prices
        return Criterion(
            "price",
            lambda one: _per_price(one, table),
            lambda one: f"{speed_figure(one)[1]}s/{table.currency}",
            _rate,
        )
    return _OTHERS[name]


def speed_figure(one: MeasuredCase) -> tuple[str, str]:
    """Return the figure that is the speed of a task, and what it counts."""
    return _RATES.get(one.case.workload.task, ("throughput", one.case.workload.item))


def _rate(one: MeasuredCase) -> str:
    return speed_figure(one)[0]


def memory_of(one: MeasuredCase) -> Sequence[float]:
    """Return the peak memory of trials, in bytes: on the CPU the process's, on an accelerator the device's own."""
    peaks = _peaks(one)
    return peaks if None not in peaks else [held for held in peaks if held is not None]  # type: ignore[return-value]


def _peaks(one: MeasuredCase) -> Sequence[float | None]:
    """Return the peak memory of each trial; of none at all nothing. See `peak_memory`."""
    columns: list[Sequence[float | None]] = []
    for name in memory_figures(one.case.placement.device):
        column = one.figures.get(name)
        if column is not None:
            if not columns and None not in column:
                return column  # of no trial a lesser figure is asked for
            columns.append(column)
    return [next((held for held in trial if held is not None), None) for trial in zip(*columns, strict=True)]


def _speed(one: MeasuredCase) -> Sequence[float | None]:
    return one.figures.get(speed_figure(one)[0], ())


def _per_watt(one: MeasuredCase) -> Sequence[float | None]:
    return [1.0 / used if used else None for used in one.figures.get("energy_per_item_j", ())]


def _per_memory(one: MeasuredCase) -> Sequence[float | None]:
    rates = _speed(one)
    return [rate / (held / _GB) if rate and held else None for rate, held in zip(rates, _peaks(one), strict=False)]


def _per_price(one: MeasuredCase, prices: Prices) -> Sequence[float | None]:
    offer = prices.of(one.device_name)
    if offer is None:
        return ()
    return [rate * _HOUR_S / (offer.per_hour * one.case.placement.paid) if rate else None for rate in _speed(one)]


_OTHERS = {
    "speed": Criterion("speed", _speed, lambda one: f"{speed_figure(one)[1]}s/s", _rate),
    "energy": Criterion("energy", _per_watt, lambda one: f"{one.case.workload.item}s/J", lambda _: "energy_per_item_j"),
    "memory": Criterion("memory", _per_memory, lambda one: f"{speed_figure(one)[1]}s/s per GB", lambda _: ""),
}


# What is computed, and from where: another question than how fast. Precision and optimizer change the result, too, and
# are for the user to choose all the same.
_GIVEN = (*axes_of(AxisStage.ITEM, AxisStage.GENERATION, AxisStage.MEASUREMENT), "grad_clip")
FOLLOWING = tuple(name for name, axis in AXES.items() if axis.follows is not None)
_SPEED = criterion("speed")
_STAYS = (
    0.5  # of a trial's variance: what trials of a run have in common on a machine that drifts (core/stats/comparing.py)
)


class Offer(msgspec.Struct, frozen=True):
    """Settings on a device and what was measured of them. `value`, with its 95 % interval over trials, in `unit`.

    `could_be`: not significantly different from the best. `doubts`: the checks that make all its figures SUSPECT;
    such runs are left out where there are others.
    """

    device: str
    hosts: tuple[str, ...]
    point: Mapping[str, Scalar]
    value: float
    low: float | None
    high: float | None
    unit: str
    trials: int
    runs: tuple[str, ...]
    case_ids: tuple[str, ...]
    torch: str | None
    memory_bytes: float | None = None
    memory_share: float | None = None
    doubts: tuple[str, ...] = ()
    could_be: bool = False
    against_best: float | None = None
    loss_rate_per_1000_items: float | None = None
    pooled: tuple[str, ...] = ()  # axes that change no speed, of which trials with several values count together


class RankedOffer(msgspec.Struct, frozen=True):
    """An Offer with what stands behind it: the logs of its trials, higher is better.

    `first`: of all its readings the first that has the figure, older ones than `readings` too: entrants stand by it.
    `rounds`, `pair_prior`: of one run alone (`InRounds`).
    """

    offer: Offer
    logs: tuple[float, ...]
    readings: tuple[MeasuredCase, ...]
    first: MeasuredCase
    rounds: RoundLogs | None = None
    pair_prior: Prior | None = None


def given(configuration: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return the axes that say what is computed: equal settings can be compared only where these are equal."""
    return {name: value for name, value in sorted(configuration.items()) if _is_given(name)}


def chosen(configuration: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return the axes that are for the user to choose, and may change the speed."""
    free = {name: value for name, value in configuration.items() if not _is_given(name)}
    return {name: value for name, value in free.items() if AXES[name].follows is None}


def _is_given(name: str) -> bool:
    return name in _GIVEN or name not in AXES


def entered(
    readings: Sequence[MeasuredCase], by: Criterion, key: Callable[[MeasuredCase], object]
) -> list[RankedOffer]:
    """Return one entrant for each key that has the criterion's figure, in the order in which they came."""
    groups: dict[object, list[MeasuredCase]] = {}
    for one in readings:
        groups.setdefault(key(one), []).append(one)
    found = [_entered(group, by) for group in groups.values()]
    return as_they_came([one for one in found if one is not None], readings)


def as_they_came(entrants: Sequence[RankedOffer], readings: Sequence[MeasuredCase]) -> list[RankedOffer]:
    """Return them in the order in which they came. `readings`: theirs, and maybe others."""
    by_first = {id(one.first): one for one in entrants}
    return [by_first[id(one)] for one in readings if id(one) in by_first]


def _values(one: MeasuredCase, by: Criterion) -> list[float]:
    """Return the criterion's figure of each trial; another tool's record may claim one of 0 or less, which is none."""
    return [value for value in by.of(one) if value is not None and value > 0.0]


def _entered(group: Sequence[MeasuredCase], by: Criterion) -> RankedOffer | None:
    """Put the runs of one Case together: those of the newest torch, and without those that are in doubt, if some are.

    Figures of an older torch are another program's: they do not count.
    """
    having = [(one, values) for one in group if (values := _values(one, by))]
    if not having:
        return None
    earliest, newest = having[0][0], having[-1][0].machine.software.get("torch")
    same = [pair for pair in having if pair[0].machine.software.get("torch") == newest]
    taken = [pair for pair in same if not pair[0].doubts] or same
    used, values = [one for one, _ in taken], [value for _, own in taken for value in own]
    prior = used[0].prior(by.figure(used[0])) if len(used) == 1 else None
    each = interval_of(by.figure(used[0]), values, prior=prior)
    first, device = used[-1], used[-1].device
    memory = [held for one in used for held in memory_of(one)]
    rates = [rate for one in used for rate in one.values("loss_rate_per_1000_items")]
    held_share = max(memory) / device.memory_bytes if memory and device is not None and device.memory_bytes else None
    offer = Offer(
        device=first.device_name,
        hosts=tuple(dict.fromkeys(one.machine.host.hostname for one in used)),
        point=chosen(first.case.configuration),
        value=each.value,
        low=each.low,
        high=each.high,
        unit=by.unit(first),
        trials=len(values),
        runs=tuple(dict.fromkeys(one.run_id for one in used)),
        case_ids=tuple(dict.fromkeys(one.case_id for one in used)),
        torch=newest,
        memory_bytes=fmean(memory) if memory else None,
        memory_share=held_share,
        doubts=tuple(dict.fromkeys(f.check for one in used for f in one.doubts)),
        loss_rate_per_1000_items=fmean(rates) if rates else None,
        pooled=tuple(axis for axis in FOLLOWING if len({one.case.configuration.get(axis) for one in used}) > 1),
    )
    rounds, pairs = None, None
    if len(used) == 1:
        rounds = round_logs(zip(first.numbers, first.templates, by.of(first), strict=False))
        pairs = first.pair_prior(by.figure(first))
    return RankedOffer(offer, tuple(map(math.log, values)), tuple(used), earliest, rounds, pairs)


def once_a_case(key: Callable[[Case], str]) -> Callable[[Case], str]:
    """Return a function of a Case that keeps what it found with it: a store has a few Cases many thousand times."""
    name = key.__name__

    def kept(case: Case) -> str:
        found: dict[str, str] = case.__dict__
        if name not in found:
            found[name] = key(case)
        return found[name]

    return kept


@once_a_case
def what_is_computed(case: Case) -> str:
    """Return what must be equal: the workload, and the axes that say what is computed."""
    return f"{sorted(case.workload.canonical().items(), key=str)}{given(case.configuration)}"


@once_a_case
def _settings(case: Case) -> str:
    placed = case.placement
    return str((placed.count, placed.nodes, sorted(chosen(case.configuration).items())))


def device_and_settings(one: MeasuredCase) -> object:
    """Return what makes two readings of one workload the same entrant."""
    return one.device_name, _settings(one.case)


def near_the_top(every: Sequence[RankedOffer]) -> list[RankedOffer]:
    """Leave out what is far from its device's highest throughput: per memory the smallest batch would always win."""
    rates = [fmean(math.log(rate) for reading in one.readings for rate in _values(reading, _SPEED)) for one in every]
    tops: dict[str, float] = {}
    for one, rate in zip(every, rates, strict=True):
        tops[one.offer.device] = max(tops.get(one.offer.device, rate), rate)
    least = math.log(NEAR_THE_TOP)
    return [one for one, rate in zip(every, rates, strict=True) if rate >= least + tops[one.offer.device]]


class Doubted(msgspec.Struct, frozen=True):
    """What a check found in `count` of `of` settings, as the newest run has it."""

    count: int
    of: int
    finding: Finding
    run_id: str


def narrow_enough(entrants: Sequence[RankedOffer]) -> tuple[list[RankedOffer], list[Statement]]:
    """Return the entrants whose trials agree well enough to choose by, and why the others are left out."""
    kept = [one for one in entrants if not units.is_wide(one.offer.value, one.offer.low, one.offer.high)]
    wide = [one.offer for one in entrants if one not in kept]
    return kept, [_of_settings("settings_wide", len(wide), entrants, why=why_wide(wide))] if wide else []


def _of_settings(name: str, count: int, entrants: Sequence[RankedOffer], **values: Value) -> Statement:
    return Statement(name, {"count": count, "of": len(entrants), **values})


def why_wide(offers: Sequence[Offer]) -> tuple[Statement, ...]:
    """Return why offers are no ground for a choice, whose trials differ too much: of the one with the fewest trials."""
    fewest = min(offers, key=lambda one: one.trials)
    wide = Statement("trials_differ", {"trials": fewest.trials})
    return (wide, Statement("trials_pooled", {"axes": fewest.pooled})) if fewest.pooled else (wide,)


def valid(entrants: Sequence[RankedOffer]) -> tuple[list[RankedOffer], list[Statement]]:
    """Return the entrants that may be recommended, and why the others may not: in doubt, or of too few trials.

    What a check calls SUSPECT may be the fastest, or not: nothing is chosen from it, nor from fewer than 3 trials.
    """
    kept = [one for one in entrants if not one.offer.doubts and one.offer.trials >= FEWEST_UNDISTURBED]
    doubtful = [one for one in entrants if one.offer.doubts]
    checks = tuple(dict.fromkeys(check for one in doubtful for check in one.offer.doubts))
    suspect = [_of_settings("settings_suspect", len(doubtful), entrants, checks=checks)] if doubtful else []
    return kept, [*suspect, *count_with_few_trials(entrants)]


def count_with_few_trials(entrants: Sequence[RankedOffer]) -> Iterator[Statement]:
    """Yield how many there are that nothing speaks against but how few trials they have, if any."""
    few = sum(not one.offer.doubts and one.offer.trials < FEWEST_UNDISTURBED for one in entrants)
    if few:
        yield _of_settings("settings_few_trials", few, entrants, fewest=FEWEST_UNDISTURBED)


def doubted(entrants: Sequence[RankedOffer]) -> Iterator[Doubted]:
    """Yield what makes figures SUSPECT or INVALID, one a check."""
    seen: dict[str, tuple[Finding, str]] = {}
    for one in entrants:
        for reading in one.readings:
            seen.update({finding.check: (finding, reading.run_id) for finding in reading.doubts})
    for check, (finding, run_id) in seen.items():
        yield Doubted(sum(check in one.offer.doubts for one in entrants), len(entrants), finding, run_id)


def spreads(entrants: Sequence[RankedOffer]) -> list[VariancePart]:
    """Return what is known of each, for best_of.

    Where not all were measured in one run, what the trials of a run have in common does not cancel, and more trials do
    not lower it.
    """
    found = best_of_many.entrants([one.logs for one in entrants])
    if len({one.offer.runs for one in entrants}) == 1:
        return found
    return [
        part._replace(stays=_STAYS * part.variance / len(one.offer.runs))
        for part, one in zip(found, entrants, strict=True)
    ]


def best_among(entrants: Sequence[RankedOffer], tried: int = 0) -> tuple[Best, list[RankedOffer]]:
    """Return which one is best, and all with `could_be` and `against_best` told, the best first.

    tried: how many there were, if more.
    """
    best = best_of_many.best_of(spreads(entrants), tried=tried, in_rounds=_in_rounds(entrants))
    top = entrants[best.best].offer.value
    told = [
        msgspec.structs.replace(
            one,
            offer=msgspec.structs.replace(
                one.offer, could_be=place in best.could_be, against_best=one.offer.value / top
            ),
        )
        for place, one in enumerate(entrants)
    ]
    return best, sorted(told, key=lambda one: -one.offer.value)


def _in_rounds(entrants: Sequence[RankedOffer]) -> Callable[[int, int], Difference | None] | None:
    """Return how entrants compare that one run measured in turn, as it is shown; None where there are several runs."""
    if len({one.offer.runs for one in entrants}) > 1 or len(entrants[0].offer.runs) > 1:
        return None
    logs = {str(place): one.rounds for place, one in enumerate(entrants) if one.rounds is not None}
    found = InRounds((), logs=logs, prior=entrants[0].pair_prior)
    return lambda one, other: found.difference(str(one), str(other))


def lead_of(best: Best, trials: int) -> Estimate | None:
    """Return how many times the next the best is, corrected for how many were tried; `trials` of the best."""
    method = PAIRED if best.paired else WITH_THE_BEST
    return Estimate(*best.lead, best.level, "ratio", method, trials, trials) if best.lead is not None else None


def other_differences(entrants: Sequence[RankedOffer]) -> Iterator[Statement]:
    """Yield what else differs between entrants that are compared: what part of a difference may be due to."""
    torches = dict.fromkeys(one.offer.torch for one in entrants)
    if len(torches) > 1:
        yield Statement("torch_differs", {"versions": tuple(map(str, torches))})
    if len({one.offer.runs for one in entrants}) > 1 and len({one.offer.hosts for one in entrants}) == 1:
        yield Statement("several_runs")
    for device in dict.fromkeys(one.offer.device for one in entrants):
        hosts = dict.fromkeys(host for one in entrants if one.offer.device == device for host in one.offer.hosts)
        if len(hosts) > 1:
            yield Statement("one_name", {"device": device, "count": len(hosts), "hosts": tuple(hosts)})
    if doubts := dict.fromkeys(check for one in entrants for check in one.offer.doubts):
        devices = tuple(dict.fromkeys(one.offer.device for one in entrants if one.offer.doubts))
        several = len({one.offer.device for one in entrants}) > 1
        values: dict[str, Value] = {"devices": devices, "checks": tuple(doubts)}
        yield Statement("figures_suspect_of" if several else "figures_suspect", values)
    if any(len(one.logs) == 1 for one in entrants):
        yield Statement("some_one_trial")


# ── the command that measures what is not known yet ──────────────────────────────────────────────────────────

TRIALS = 5
Vary = Mapping[str, Sequence[Scalar]]  # the values of axes to type


def run_command(one: MeasuredCase, vary: Vary, *, device: str | None = None, trials: int = TRIALS) -> str:
    """Return the `torchstone run` that measures this workload over the values of these axes, all else as it was."""
    words = ["torchstone", "run", *workload_flags(one.case.workload)]
    words += ["--device", device or str(one.case.placement)]
    by_data = of_data(one.case)
    fixed = {
        name: [value]
        for name, value in one.case.configuration.items()
        if name not in vary and name in AXES and (value != AXES[name].default or name in by_data)
    }
    for name, values in {**vary, **fixed}.items():
        listed = ",".join(map(scalar_word, values))
        flag = AXES[name].flag
        words += [flag, listed] if flag is not None else ["--axis", f"{name}={listed}"]
    return shlex.join([*words, "--trials", str(trials)])

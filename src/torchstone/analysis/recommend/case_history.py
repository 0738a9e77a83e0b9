"""How a Case's figure moved over all stored runs, machine by machine, and what else changed where it did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.estimates import interval_of
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, portable
from torchstone.core.schema.codec import encode
from torchstone.core.schema.comparison import Judgement, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import flat
from torchstone.core.schema.metric import FIGURES, Better
from torchstone.core.stats import change_points
from torchstone.core.stats.change_points import FEWEST
from torchstone.core.stats.moderated import trial_spread
from torchstone.storage.index import Problem
from torchstone.storage.measured import MeasuredCase, stored_cases, stored_cases_by_id
from torchstone.storage.place import Place
from torchstone.storage.query import find

_WORTH = ("heap", "isolation", "settings", "seed", "warmup", "iterations", "budget_s", "target", "telemetry_period_s")
_FACTS = ("setting_", "revision", "threads_in_effect")
_SHORT = 12  # digits of a digest that are shown


class Changed(msgspec.Struct, frozen=True):
    """One thing that was another before and after. `throughout`: it was one and the same within each stretch."""

    what: str
    before: str | None
    after: str | None
    throughout: bool


def what_changed(before: Sequence[MeasuredCase], after: Sequence[MeasuredCase]) -> tuple[Changed, ...]:
    """Return what differs between the last run before and the first run after, what holds throughout first."""
    last, first = recorded_conditions(before[-1]), recorded_conditions(after[0])
    names = [name for name in dict.fromkeys((*last, *first)) if last.get(name) != first.get(name)]
    if not names:
        return ()
    both = [[recorded_conditions(one) for one in stretch] for stretch in (before, after)]
    found = [
        Changed(name, last.get(name), first.get(name), all(len({one.get(name) for one in side}) == 1 for side in both))
        for name in names
    ]
    return tuple(sorted(found, key=lambda one: not one.throughout))


def recorded_conditions(one: MeasuredCase) -> Mapping[str, str | None]:
    """Return everything that was recorded of a run and may move its figures: name → value."""
    machine, device = one.machine, one.device
    told: dict[str, str | None] = {
        f"code {name}": digest[:_SHORT] for name, digest in one.code.items()
    }  # the user's own first: it is what people look for
    if one.source is not None:
        told[f"file {one.source.word}"] = one.source.sha256[:_SHORT]
    told.update(machine.software)
    told["system"], told["processor"], told["governor"] = (
        machine.host.platform,
        machine.host.processor,
        machine.host.governor,
    )
    if device is not None:
        told["device"], told["driver"], told["runtime"] = device.name, device.driver, device.runtime
    told.update(machine.settings)
    told.update({name: _text(one.procedure.get(name)) for name in _WORTH})
    told.update({name: _text(value) for name, value in flat(one.facts).items() if name.startswith(_FACTS)})
    return told


def _text(value: Scalar | object) -> str | None:
    return None if value is None else str(value)


_LEVEL, _BY_LEVELS = 0.95, "t on the log over runs, the spread that of all levels"
SUSPECT_RUN = "suspect_run"  # why a run is left out that `--suspect` counts
_SHORTEST_ID = 4  # characters of a case_id that are taken for one


class LevelPoint(msgspec.Struct, frozen=True):
    """One run. `value` with its 95 % interval over `trials`. `counted`: False where it was left out, and `why`."""

    run_id: str
    started_utc: str
    value: float
    low: float | None
    high: float | None
    trials: int
    counted: bool = True
    why: Statement | None = None


class Segment(msgspec.Struct, frozen=True):
    """A stretch of runs on one level, by their places among the points: [first, last]. Its value, and its interval."""

    first: int
    last: int
    runs: int
    value: float
    low: float
    high: float


class LevelChange(msgspec.Struct, frozen=True):
    """Where the level changed: `at` is the first point after it. `ratio`: after ÷ before, the replicate is the run."""

    at: int
    run_id: str
    started_utc: str
    ratio: Estimate
    verdict: Judgement
    changed: tuple[Changed, ...]


class History(msgspec.Struct, frozen=True):
    """One Case on one machine. `deviation`: of the log of one run around its level; None under two counted runs."""

    case_id: str
    task: str
    model: str
    data: str
    device: str
    host: str
    configuration: dict[str, Scalar]
    metric: str
    unit: str
    points: tuple[LevelPoint, ...]
    segments: tuple[Segment, ...]
    changes: tuple[LevelChange, ...]
    deviation: float | None

    @property
    def enough(self) -> bool:
        """Whether a change could have been seen."""
        return sum(one.counted for one in self.points) >= 2 * FEWEST


class Histories(msgspec.Struct, frozen=True):
    """All that were asked for, those with a change first; `runs`: how many are stored."""

    metric: str
    histories: tuple[History, ...]
    runs: int
    problems: tuple[Problem, ...] = ()


def history(place: Place, word: str | None = None, metric: str = "throughput", *, suspect: bool = False) -> Histories:
    """Return the histories of a Case (its id or the beginning of one), of a run's Cases, or of a model; None: of all.

    `suspect`: count runs whose figures are SUSPECT, too; otherwise they are told, and left out.
    Raises UsageError where the word means nothing here, or no figure has that name.
    """
    if metric not in FIGURES:
        raise unknown("figure", metric, FIGURES)
    store = stored_cases_by_id(place, word, (metric,)) if word is not None and len(word) >= _SHORTEST_ID else None
    if store is None or not store.measured:
        store = stored_cases(place, (metric,))
    found = histories_of(_meant(place, store.measured, word), metric, suspect=suspect)
    return Histories(metric, found, store.runs, store.problems)


def histories_of(readings: Sequence[MeasuredCase], metric: str, *, suspect: bool = False) -> tuple[History, ...]:
    """Return the histories of Cases, oldest run first, machine by machine: those with a change first."""
    groups: dict[tuple[str, str, str], list[MeasuredCase]] = {}
    for one in readings:
        if one.values(metric):
            groups.setdefault((one.case_id, one.device_name, one.machine.host.hostname), []).append(one)
    found = [_history(group, metric, suspect=suspect) for group in groups.values()]
    found.sort(key=lambda one: (not one.changes, -len(one.points)))
    return tuple(found)


def _meant(place: Place, readings: Sequence[MeasuredCase], word: str | None) -> list[MeasuredCase]:
    if word is None or not readings:
        return list(readings)
    if len(word) >= _SHORTEST_ID and (found := [one for one in readings if one.case_id.startswith(word)]):
        return found
    lower = word.casefold()
    if found := [one for one in readings if lower in one.case.workload.model.casefold() and word != "latest"]:
        return found
    try:
        entry = find(place, word)
    except UsageError as fault:
        models = ", ".join(dict.fromkeys(portable(one.case.workload.model) for one in readings))
        raise UsageError(f"{fault} It is no prefix of a case_id or part of a model's name either: {models}") from None
    ours = {case.case_id for case in entry.head.plan.cases}
    return [one for one in readings if one.case_id in ours]


def _history(group: Sequence[MeasuredCase], metric: str, *, suspect: bool) -> History:
    points = [_point(one, metric, suspect=suspect) for one in group]
    places = [place for place, point in enumerate(points) if point.counted]
    first = group[0]
    segments: list[Segment] = []
    changes: list[LevelChange] = []
    deviation = None
    if places:
        told = change_points.levels(
            [points[place].value for place in places], [_error(group[place].values(metric)) for place in places]
        )
        for outlier in told.outliers:
            place = places[outlier]
            points[place] = msgspec.structs.replace(points[place], counted=False, why=Statement("outlier_run"))
        segments = list(_segments(told, places))
        changes = list(_changes(told, places, group, metric))
        deviation = told.deviation if len(places) > 1 else None
    case: Case = first.case
    return History(
        first.case_id,
        str(case.workload.task),
        portable(case.workload.model),
        portable(case.workload.data),
        first.device_name,
        first.machine.host.hostname,
        dict(case.configuration),
        metric,
        str(FIGURES[metric].unit),
        tuple(points),
        tuple(segments),
        tuple(changes),
        deviation,
    )


def _point(one: MeasuredCase, metric: str, *, suspect: bool) -> LevelPoint:
    values = one.values(metric)
    each = interval_of(metric, values, prior=one.prior(metric))
    why = None
    if min(values) <= 0.0:
        why = Statement("not_above_zero")
    elif one.doubts and not suspect:
        why = Statement(SUSPECT_RUN, {"checks": tuple(dict.fromkeys(f.check for f in one.doubts))})
    return LevelPoint(one.run_id, one.started_utc, each.value, each.low, each.high, len(values), why is None, why)


def _error(values: Sequence[float]) -> float | None:
    """Return the standard error of a run's log by its own trials; None of one trial, and of equal ones."""
    spread = trial_spread([math.log(value) for value in values])
    return math.sqrt(spread.variance / len(values)) if spread is not None and spread.variance > 0.0 else None


def _segments(told: change_points.Levels, places: Sequence[int]) -> Iterator[Segment]:
    for level in told.levels:
        value, low, high = told.interval(level)
        yield Segment(places[level.begin], places[level.end - 1], level.values, value, low, high)


def _changes(
    told: change_points.Levels, places: Sequence[int], group: Sequence[MeasuredCase], metric: str
) -> Iterator[LevelChange]:
    for before, after in zip(told.levels, told.levels[1:], strict=False):
        value, low, high = told.difference(before, after).ratio(_LEVEL)
        runs = min(before.values, after.values)
        at = group[places[after.begin]]
        sides = [[group[place] for place in places[level.begin : level.end]] for level in (before, after)]
        yield LevelChange(
            places[after.begin],
            at.run_id,
            at.started_utc,
            Estimate(value, low, high, _LEVEL, "ratio", _BY_LEVELS, runs, before.values + after.values),
            judgement(low, high, metric),
            what_changed(sides[0], sides[1]),
        )


def judgement(low: float, high: float, metric: str, margin: float = 0.0) -> Judgement:
    """Return what the interval of a ratio says of a figure; `unclear` where neither way is better."""
    better = FIGURES[metric].better
    if better == Better.NEITHER:
        return Judgement.UNCLEAR
    return judge(low, high, margin, higher_is_better=better == Better.HIGHER)


def worse(histories: Sequence[History], margin: float) -> list[History]:
    """Return those whose newest level is worse than the one before it by more than the margin (0.02: 2 %)."""
    found = []
    for one in histories:
        last = one.changes[-1] if one.changes else None
        if (
            last is not None
            and last.verdict == Judgement.WORSE
            and abs(math.log(last.ratio.value)) > math.log1p(margin)
        ):
            found.append(one)
    return found


def without_level(histories: Sequence[History]) -> list[History]:
    """Return the histories of which no run counts: they have no level that others could be held against."""
    return [one for one in histories if not one.segments]


def reference_lines(histories: Sequence[History]) -> Iterator[bytes]:
    """Yield a line for each case and machine that has a level: its value with its interval, since when, of how many."""
    for one in histories:
        if not one.segments:
            continue
        last = one.segments[-1]
        body = {
            "case_id": one.case_id,
            "task": one.task,
            "model": one.model,
            "data": one.data,
            "device": one.device,
            "host": one.host,
            **one.configuration,
            one.metric: last.value,
            f"{one.metric}_low": last.low,
            f"{one.metric}_high": last.high,
            "unit": one.unit,
            "runs": last.runs,
            "since_utc": one.points[last.first].started_utc,
            "until_utc": one.points[last.last].started_utc,
        }
        yield encode(body) + b"\n"

"""Stored runs compared: every figure of every matched Case, judged with a known rate of false alarms.

A run that was measured again is equivalent to what was recorded, different, or the comparison is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from statistics import fmean

import msgspec

from torchstone.analysis.advice.in_rounds import PAIRED
from torchstone.analysis.compare.comparability import (
    Comparability,
    differing,
    disturbed,
    lengths_apart,
    same_machine,
    sameness,
    shapes_differ,
)
from torchstone.analysis.compare.compared_figures import (
    BLOCK_OF,
    FOLLOWING,
    PerTrial,
    comparable,
    estimate_of_side,
    higher_is_better,
    moves_with_the_machine,
    of_side,
    primary,
    steps_error,
    unit_of,
)
from torchstone.analysis.compare.inputs import CaseTrials, ComparedInput, Matched, match
from torchstone.config.prices import HourlyPrice
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.comparison import Comparison, Differing, Judgement, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, replicates
from torchstone.core.stats import comparing
from torchstone.core.stats.comparing import (
    ASSUMED_OF_MEMORY,
    ASSUMED_OF_TIMES,
    Difference,
    Templates,
    VariancePart,
    benjamini_hochberg,
    by_rounds,
    holm,
)
from torchstone.core.stats.nested import ASSUMED_SPREAD
from torchstone.core.units import percent

ALPHA = 0.05
_RUNS = 3  # of one side: from here on the run is the replicate, which drift cannot fool
_WORTH = 0.01  # a smaller drift widens the interval too, and is not worth a word
Drifts = Mapping[tuple[str, str], float]  # by run id and figure: how far it moved over the run, as a log

WELCH = "Welch's t on the log over batches of trials"
BY_RUNS = "Welch's t on the log over runs"
ONE_TRIAL = f"one trial: the variation between processes is not measured, {percent(comparing.ASSUMED)} is assumed"
_FAR_S = 600.0  # runs of one machine with more between them: its drift since is not seen
_MOSTLY_DRIFT = 1.5  # times as wide as processes alone make it: then it is worth a word
_ROUNDING = 1e-9
_TIMED = ("throughput", "latency", "energy", "cost")  # blocks whose figures a busy neighbour moves


class Offered(msgspec.Struct, frozen=True):
    """The price of an hour of a device in a price table, and its currency."""

    price: HourlyPrice
    currency: str


class ComparisonRequest(msgspec.Struct, frozen=True):
    """How to judge. `prices`: money an hour, by the letter of a participant; `offers`: those that are of a table."""

    margin: float = 0.02
    prices: Mapping[str, float] = {}
    offers: Mapping[str, Offered] = {}


class JudgedFigure(msgspec.Struct, frozen=True):
    """One Comparison with its place: the Case in words, the task, the block it is shown in, the value of each side.

    `labels`: under which it has to be read.
    """

    case: str
    task: str
    block: str
    unit: str
    comparison: Comparison
    baseline_value: Estimate | None = None
    candidate_value: Estimate | None = None
    labels: tuple[Statement, ...] = ()


class ComparedRuns(msgspec.Struct, frozen=True):
    """Everything that was compared. `levels`: of the intervals of the first figure of each Case, and of all others.

    `with_fastest`: of each task with several candidates, the first figure of each ÷ that of the one that is the fastest
    on average: the fastest by chance is not the fastest.
    """

    participants: tuple[ComparedInput, ...]
    matched: tuple[Matched, ...]
    judged: tuple[JudgedFigure, ...]
    request: ComparisonRequest
    levels: tuple[float, float]
    with_fastest: Mapping[str, tuple[JudgedFigure, ...]] = {}

    @property
    def margin(self) -> float:
        """What counts as equal."""
        return self.request.margin


class FigurePair(msgspec.Struct, frozen=True):
    """A matched Case of two participants, and what is to be said of them before any figure.

    `apart`: lengths of a run between the two sides; None on two machines.
    """

    matched: Matched
    baseline: ComparedInput
    candidate: ComparedInput
    same: Comparability
    differing: tuple[Differing, ...]
    apart: float | None

    @property
    def sides(self) -> tuple[Sequence[CaseTrials], Sequence[CaseTrials]]:
        """The runs of the Case on either side."""
        return self.matched.sides[self.baseline.letter], self.matched.sides[self.candidate.letter]


class Contrast(msgspec.Struct, frozen=True):
    """One figure of a pair before it is judged: candidate less baseline of logs, and how that is known.

    `trials`: on the thinner side; `labels`: under which it has to be read.
    """

    pair: FigurePair
    metric: str
    difference: Difference
    method: str
    trials: int
    samples: int
    labels: tuple[Statement, ...]


def compare(participants: Sequence[ComparedInput], request: ComparisonRequest) -> ComparedRuns:
    """Compare every participant with the first. Raises UsageError where no Case of it matches another's."""
    baseline, matched = participants[0], match(participants)
    pairs = _pairs(matched, baseline, participants)
    if not pairs:
        raise UsageError(f"no case in common with the baseline {baseline.letter}: choose another with --baseline")
    values = {
        (each.label, letter): of_side(side, request.prices.get(letter))
        for each in matched
        for letter, side in each.sides.items()
    }
    drifts = drifts_of(list(_by_run(matched, values)))

    def drawn(pair: FigurePair) -> list[Contrast]:
        return list(_contrasts(pair, values, drifts)) if pair.same.against is None else []

    contrasts = [drawn(pair) for pair in pairs]
    first, others = _judged_apart([one for own in contrasts for one in own])
    levels = {id(one): level for family, level in (first, others) for one in family}
    judged: list[JudgedFigure] = []
    for pair, own in zip(pairs, contrasts, strict=True):
        judged += [_judge(one, levels[id(one)], request) for one in own] or [_not_comparable(pair, request.margin)]
    rivals: dict[str, tuple[JudgedFigure, ...]] = {}
    for task, fastest in _fastest(first[0], participants):
        own = [
            one
            for pair in _pairs([each for each in matched if each.task == task], fastest, participants)
            for one in drawn(pair)
            if _is_primary(one)
        ]
        level = holm([one.difference.p_value() for one in own], ALPHA)[1]
        rivals[task] = tuple(_judge(one, level, request) for one in own)
    return ComparedRuns(tuple(participants), tuple(matched), tuple(judged), request, (first[1], others[1]), rivals)


def _pairs(matched: Sequence[Matched], baseline: ComparedInput, among: Sequence[ComparedInput]) -> list[FigurePair]:
    """Return each Case of the baseline with that of each other who has it."""
    return [
        _pair(each, baseline, one)
        for each in matched
        if baseline.letter in each.sides
        for one in among
        if one is not baseline and one.letter in each.sides
    ]


def _fastest(drawn: Sequence[Contrast], participants: Sequence[ComparedInput]) -> Iterator[tuple[str, ComparedInput]]:
    """Yield each task that several candidates have with the participant that is the fastest on average."""
    logs: dict[str, dict[str, list[float]]] = {}
    for one in filter(_is_primary, drawn):
        of_task = logs.setdefault(one.pair.matched.task, {participants[0].letter: [0.0]})
        of_task.setdefault(one.pair.candidate.letter, []).append(one.difference.log)
    for task, found in logs.items():
        if len(found) > 2:
            yield (
                task,
                max((one for one in participants if one.letter in found), key=lambda one: fmean(found[one.letter])),
            )


def _judged_apart(drawn: Sequence[Contrast]) -> tuple[tuple[list[Contrast], float], tuple[list[Contrast], float]]:
    """Return two families with the level of their intervals: what answers which is faster, and all other figures.

    No table in twenty has a false alarm in the first (Holm); in the second one in twenty of those raised is false.
    What is another figure turned round has the level of that.
    """
    first = [one for one in drawn if _is_primary(one)]
    logs = {id(one.pair): one.difference.log for one in first}
    following: list[Contrast] = []
    others: list[Contrast] = []
    for one in drawn:
        if not _is_primary(one):
            (following if _follows(one, logs.get(id(one.pair))) else others).append(one)
    level = holm([one.difference.p_value() for one in first], ALPHA)[1] if first else 1.0 - ALPHA
    wide = benjamini_hochberg([one.difference.p_value() for one in others], ALPHA)[1] if others else level
    return ([*first, *following], level), (others, wide)


def _is_primary(one: Contrast) -> bool:
    return one.metric == primary(one.pair.matched.task)


def _follows(one: Contrast, log: float | None) -> bool:
    """Return whether a figure is the inverse of the one that answers which is faster, whose ratio has that logarithm.

    Its interval and verdict are then those of the other: to test it again could only contradict.
    """
    return log is not None and one.metric in FOLLOWING and abs(one.difference.log + log) < _ROUNDING


def _pair(matched: Matched, baseline: ComparedInput, candidate: ComparedInput) -> FigurePair:
    a, b = matched.sides[baseline.letter], matched.sides[candidate.letter]
    same = sameness(a, b)
    apart = lengths_apart(a, b) if same_machine(a[-1], b[-1]) else None
    found = [*same.differing, *differing(a[-1], b[-1])]
    if apart is not None and apart[0] > _FAR_S and not _in_turn(a, b):
        matters = Statement("time_apart", {"apart_s": apart[0]})
        found.append(Differing("time", a[-1].run.head.started_utc, b[-1].run.head.started_utc, matters))
    return FigurePair(matched, baseline, candidate, same, tuple(found), apart[1] if apart is not None else None)


def _in_turn(a: Sequence[CaseTrials], b: Sequence[CaseTrials]) -> bool:
    """Say whether both are Cases of one run, so that their trials were taken in turn."""
    return len({taken.run.head.run_id for side in (a, b) for taken in side}) == 1


def _by_run(
    matched: Sequence[Matched], values: Mapping[tuple[str, str], Mapping[str, Sequence[PerTrial]]]
) -> Iterator[tuple[CaseTrials, Mapping[str, PerTrial]]]:
    for each in matched:
        for letter, side in each.sides.items():
            found = values[each.label, letter]
            having = [taken for taken in side if taken.trials]
            for place, taken in enumerate(having):
                yield taken, {name: runs[place] for name, runs in found.items() if len(runs) == len(having)}


def _contrasts(
    pair: FigurePair, values: Mapping[tuple[str, str], Mapping[str, Sequence[PerTrial]]], drifts: Drifts
) -> Iterator[Contrast]:
    """Yield the contrast of each figure that both sides have."""
    a, b = (values[pair.matched.label, one.letter] for one in (pair.baseline, pair.candidate))
    reshaped = shapes_differ(pair.same)
    for metric in BLOCK_OF:
        if metric in a and metric in b and comparable(pair.matched.task, shapes_differ=reshaped, figure=metric):
            yield _contrast(metric, pair, a[metric], b[metric], drifts)


def _contrast(metric: str, pair: FigurePair, a: Sequence[PerTrial], b: Sequence[PerTrial], drifts: Drifts) -> Contrast:
    """Return the contrast of a figure that both sides have."""
    baseline, candidate = pair.sides
    samples = sum(each.samples for each in (*a, *b))
    if _in_turn(baseline, candidate) and len(a) == len(b) == 1:
        moves = moves_with_the_machine(metric)
        prior = candidate[0].of_run.pair_prior(metric) if moves else None
        assumed = ASSUMED_SPREAD if moves else ASSUMED_OF_MEMORY
        found = by_rounds(
            _rounds(b[0]), _rounds(a[0]), prior, dict(zip(a[0].numbers, a[0].templates, strict=False)), assumed
        )
        if found is not None:
            return Contrast(pair, metric, found, PAIRED, found.candidate.trials, samples, ())
    labels: list[Statement] = []
    parts: list[VariancePart] = []
    for which, side, values in (("baseline", baseline, a), ("candidate", candidate, b)):
        part, label = _part(metric, side, values, pair.apart, drifts)
        parts.append(part)
        if label is not None:
            labels.append(Statement(label, {"side": which, "assumed": comparing.ASSUMED}))
    by_runs = len(a) >= _RUNS and len(b) >= _RUNS
    single = any(sum(len(each.values) for each in values) == 1 for values in (a, b))
    method = ONE_TRIAL if single else BY_RUNS if by_runs else WELCH
    thin = min(sum(len(each.values) for each in values) for values in (a, b))
    return Contrast(pair, metric, comparing.difference(*parts), method, thin, samples, tuple(labels))


def _rounds(values: PerTrial) -> dict[int, float]:
    return {number: math.log(value) for number, value in zip(values.numbers, values.values, strict=True)}


def _part(
    metric: str, side: Sequence[CaseTrials], values: Sequence[PerTrial], apart: float | None, drifts: Drifts
) -> tuple[VariancePart, str | None]:
    """Return what one side says of a figure, and the id of its label."""
    logs = [[math.log(value) for value in each.values] for each in values]
    if len(logs) >= _RUNS:
        return comparing.of_independent([fmean(each) for each in logs]), None
    together = [value for each in logs for value in each]
    if len(together) == 1:
        (taken,) = [one for one in side if one.trials][:1]
        return comparing.of_one(together[0], steps_error(taken, metric)), "side_of_one_trial"
    drifting = moves_with_the_machine(metric)
    moved = max((drifts.get((one.run.head.run_id, metric), 0.0) for one in side), key=abs) if drifting else 0.0
    # How far a run moved while it was taken, so little is known of where it would have been at the other's time.
    label = "side_drifted" if abs(moved) > _WORTH else None
    assumed = ASSUMED_OF_TIMES if drifting else ASSUMED_OF_MEMORY
    return comparing.run_mean(
        together, apart if drifting else None, moved, Templates(_templates(values), assumed)
    ), label


def _templates(values: Sequence[PerTrial]) -> list[tuple[int, Scalar]]:
    """Return the template of each trial of a side, told apart by the run it is of; none where a run does not tell."""
    if not all(each.templates for each in values):
        return []
    return [(place, template) for place, each in enumerate(values) for template in each.templates]


def drifts_of(cases: Sequence[tuple[CaseTrials, Mapping[str, PerTrial]]]) -> dict[tuple[str, str], float]:
    """Return how far each figure moved over each run: its Cases were taken in turn, and show one drift together."""
    grouped: dict[tuple[str, str], list[tuple[Sequence[float], Sequence[float]]]] = {}
    for taken, values in cases:
        for metric, each in values.items():
            grouped.setdefault((taken.run.head.run_id, metric), []).extend(_within_templates(each))
    found = {key: comparing.drift_seen(each) for key, each in grouped.items()}
    return {key: moved for key, moved in found.items() if moved}


def _within_templates(values: PerTrial) -> Iterator[tuple[Sequence[float], Sequence[float]]]:
    """Yield places and logs of the trials of each template: what templates differ by must not look like a drift."""
    templates = values.templates or (None,) * len(values.values)
    for template in dict.fromkeys(templates):
        having = [place for place, its in enumerate(templates) if its == template]
        if len(having) > 1:
            yield [float(values.places[at]) for at in having], [math.log(values.values[at]) for at in having]


def _side(pair: FigurePair, who: ComparedInput) -> Side:
    newest = pair.matched.sides[who.letter][-1]
    return Side(who.label, newest.run.head.run_id, newest.case.case_id)


def _both(pair: FigurePair) -> tuple[Side, Side]:
    return _side(pair, pair.baseline), _side(pair, pair.candidate)


def _not_comparable(pair: FigurePair, margin: float) -> JudgedFigure:
    metric = primary(pair.matched.task)
    why = pair.same.against or Statement("no_figure")
    found = Comparison(*_both(pair), metric, None, Judgement.NOT_COMPARABLE, margin, pair.differing, why)
    return JudgedFigure(pair.matched.label, pair.matched.task, BLOCK_OF[metric], unit_of(metric), found)


def _judge(found: Contrast, level: float, asked: ComparisonRequest) -> JudgedFigure:
    pair, metric, margin, higher = found.pair, found.metric, asked.margin, higher_is_better(found.metric)
    value, low, high = found.difference.ratio(level)
    ratio = Estimate(value, low, high, level, "ratio", found.method, found.trials, found.samples)
    verdict = judge(low, high, margin, higher_is_better=higher)
    # Of trials beside a neighbour more are no help: only what is open by its interval has a number that settles it.
    can_repeat = not (pair.baseline.trains or pair.candidate.trains)
    settle = found.difference.to_settle(level, margin) if verdict == Judgement.UNCLEAR and can_repeat else None
    block, labels = BLOCK_OF[metric], [*pair.same.labels, *found.labels]
    if block in _TIMED and verdict in (Judgement.BETTER, Judgement.WORSE):
        sides = {"baseline": pair.sides[0][-1], "candidate": pair.sides[1][-1]}
        worse, better = ("candidate", "baseline") if verdict == Judgement.WORSE else ("baseline", "candidate")
        if (alone := disturbed(sides[worse], sides[better], worse)) is not None:
            labels.append(alone)
            verdict = Judgement.UNCLEAR
    if verdict == Judgement.UNCLEAR and _is_primary(found) and pair.apart is not None:
        labels += _of_drift(found.difference, level)
    comparison = Comparison(*_both(pair), metric, ratio, verdict, margin, pair.differing, None, settle)
    mine, yours = (
        estimate_of_side(metric, side, asked.prices.get(who.letter))
        for side, who in zip(pair.sides, (pair.baseline, pair.candidate), strict=True)
    )
    matched = pair.matched
    return JudgedFigure(matched.label, matched.task, block, unit_of(metric), comparison, mine, yours, _once(labels))


def _once(labels: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return each label once: a Statement holds a mapping, and has no hash."""
    return tuple(one for at, one in enumerate(labels) if one not in labels[:at])


def _of_drift(found: Difference, level: float) -> Iterator[Statement]:
    """Yield how much of an interval is no spread of processes, but what a machine may drift between two runs."""
    sides = [side._replace(stays=0.0) for side in (found.baseline, found.candidate)]
    (_, alone), (_, whole) = (one.interval(level) for one in (Difference(0.0, *sides), found._replace(log=0.0)))
    if whole > _MOSTLY_DRIFT * alone > 0.0:
        yield Statement("mostly_drift", {"alone": math.expm1(alone), "whole": math.expm1(whole)})


class Gate(msgspec.Struct, frozen=True):
    """What makes a comparison fail: figures that are worse, and by more than `worse_by`; that are unclear; lost Cases.

    Lost Cases (matching.lost) have no figure: whoever asks for `missing` looks for them beside `failing`.
    """

    worse: bool = False
    worse_by: float = 0.0
    unclear: bool = False
    missing: bool = False


def failing(compared: ComparedRuns, gate: Gate) -> list[JudgedFigure]:
    """Return the comparisons that a gate does not let through; what is not comparable passes none.

    The start-up of a process (block `start`) is no matter of a gate.
    """
    return [one for one in compared.judged if one.block != "start" and _fails(one, gate)]


def _fails(one: JudgedFigure, gate: Gate) -> bool:
    found = one.comparison
    if found.verdict == Judgement.NOT_COMPARABLE or found.ratio is None:
        return True
    if found.verdict == Judgement.WORSE:
        return gate.worse and max(found.ratio.value, 1.0 / found.ratio.value) > 1.0 + gate.worse_by
    return gate.unclear and found.verdict == Judgement.UNCLEAR


class ItemTimeRatio(msgspec.Struct, frozen=True):
    """Candidate ÷ baseline of the time of an item in one Case, with its interval.

    `faster`: the letter of who takes less; None where both are the same, or it is unclear (`verdict`).
    """

    case: str
    baseline: str
    candidate: str
    ratio: float
    low: float
    high: float
    verdict: Judgement
    faster: str | None


def item_time_ratios(compared: ComparedRuns) -> Iterator[ItemTimeRatio]:
    """Yield one for each candidate and Case whose rate is compared, in the order in which they were judged."""
    letters = {one.label: one.letter for one in compared.participants}
    for one in compared.judged:
        found, ratio = one.comparison, one.comparison.ratio
        if found.metric != primary(one.task) or ratio is None:
            continue
        a, b = letters[found.baseline.label], letters[found.candidate.label]
        low, high = ratio.low or ratio.value, ratio.high or ratio.value
        faster = {Judgement.BETTER: b, Judgement.WORSE: a}.get(found.verdict)
        yield ItemTimeRatio(one.case, a, b, 1.0 / ratio.value, 1.0 / high, 1.0 / low, found.verdict, faster)


class Equivalence(StrEnum):
    """Whether what was measured again is what was recorded."""

    EQUIVALENT = "equivalent"  # every case, within the margin
    DIFFERENT = "different"  # a case is significantly faster or slower
    INCONCLUSIVE = "inconclusive"


class Reproduced(msgspec.Struct, frozen=True):
    """The answer, and the comparison behind it: the recorded run is its baseline.

    `unmeasured`: recorded Cases that have no figure here.
    """

    answer: Equivalence
    compared: ComparedRuns
    judged: tuple[JudgedFigure, ...]  # the figure that the answer is of, a Case each
    unmeasured: int = 0


def reproduced(recorded: Run, again: Run, margin: float) -> Reproduced:
    """Compare a run that was measured again with the recorded one. Raises UsageError where no Case is in both."""
    sides = [
        ComparedInput("A", "recorded", recorded.head.run_id, (recorded,)),
        ComparedInput("B", "measured here", again.head.run_id, (again,)),
    ]
    compared = compare(sides, ComparisonRequest(margin))
    measured = {trial.case_id for trial in replicates(recorded.trials) if trial.outcome.status == Status.OK}
    primaries = [one for one in compared.judged if one.comparison.metric == primary(one.task)]
    judged = tuple(one for one in primaries if one.comparison.baseline.case_id in measured)
    verdicts = {one.comparison.verdict for one in judged}
    if verdicts & {Judgement.BETTER, Judgement.WORSE}:
        return Reproduced(Equivalence.DIFFERENT, compared, judged)
    lost = len(measured - {one.comparison.baseline.case_id for one in judged})
    answer = Equivalence.EQUIVALENT if verdicts == {Judgement.SAME} and not lost else Equivalence.INCONCLUSIVE
    return Reproduced(answer, compared, judged, lost)

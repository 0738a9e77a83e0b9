"""What changed at a commit of a pull request: each case beside its history, the price, and what the job says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import Any

import msgspec

from torchstone.analysis.compare.ab_sides import result_words, results_apart
from torchstone.analysis.recommend.case_history import LevelChange, LevelPoint, judgement
from torchstone.core.errors import ExitCode, TorchstoneError
from torchstone.core.figures import figures
from torchstone.core.messages import not_compared
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import AbResult
from torchstone.core.schema.ci import CiBenchmark, CiResult, HistoryEntry, HistoryPoint, State
from torchstone.core.schema.comparison import Comparison, Judgement, Rules
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.run import SCHEMA, Run
from torchstone.core.schema.trial import Status
from torchstone.core.stats.student import normal_quantile

SPANS = (10, 30, 100)  # commits that are looked at together
_LEVEL = 0.95
_TIME = "step_time_mean"  # the figure that is compared


class NothingToKeep(TorchstoneError):
    """A commit has no ratio that can be relied on."""

    exit_code = ExitCode.FAILED


def history_entry(assessment: Assessment) -> HistoryEntry:
    """Return what the history keeps of a commit. Raises NothingToKeep: without an entry the next begins a new chain."""
    result = assessment.result
    if result.base is None:
        raise NothingToKeep(f"nothing to keep: {result.why_no_base or 'the commit has no base'}")
    if not assessment.is_reliable:
        raise NothingToKeep("nothing to keep: the base differs from itself in this job; run it again")
    if not any(change.ratio is not None for change in assessment.changes):
        raise NothingToKeep("nothing to keep: no benchmark has a ratio; see torchstone ci gate")
    when = result.committed_utc or result.began_utc
    return HistoryEntry(
        SCHEMA, result.head, result.base, when, assessment.limit, tuple(map(_point, assessment.changes))
    )


def _point(change: BenchmarkChange) -> HistoryPoint:
    device = change.device[:200] if change.device is not None else None
    point = HistoryPoint(change.name, str(change.verdict), step_time_s=change.step_time_s, device=device)
    ratio = change.ratio
    if ratio is None:
        return point
    return msgspec.structs.replace(point, ratio=ratio.value, low=ratio.low, high=ratio.high, level=ratio.level)


class CommitStep(msgspec.Struct, frozen=True):
    """One commit of a chain. `total`: time of a step ÷ that before the chain, a point of a history as any other."""

    point: HistoryPoint
    total: LevelPoint
    begins: bool


class Trace(msgspec.Struct, frozen=True):
    """The history of one benchmark, oldest first. `drift`: proven beyond the limit; None where that is not so.

    Its `ratio` is what so many of the last commits (`trials`) did together, without steps, with an interval of 95 %
    over all spans at once.
    """

    name: str
    steps: tuple[CommitStep, ...]
    drift: LevelChange | None


def traces(entries: Sequence[HistoryEntry]) -> list[Trace]:
    """Return the history of each benchmark that has a ratio, by name. `entries`: oldest first."""
    ordered = _in_order(entries)
    names = dict.fromkeys(point.name for entry in ordered for point in entry.points if _log(point) is not None)
    return [_trace(name, ordered) for name in sorted(names)]


def _in_order(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Return the entries with each after its base: commits made in the same second have no order by time."""
    by_commit = {entry.commit: entry for entry in entries}
    done: dict[str, HistoryEntry] = {}
    for entry in entries:
        waiting, seen = [entry], {entry.commit}
        while (before := by_commit.get(waiting[-1].base)) is not None and before.commit not in done:
            if before.commit in seen:  # a ring, which only a made-up history has
                break
            seen.add(before.commit)
            waiting.append(before)
        for one in reversed(waiting):
            done.setdefault(one.commit, one)
    return list(done.values())


def _trace(name: str, entries: Sequence[HistoryEntry]) -> Trace:
    steps: list[CommitStep] = []
    chain: list[tuple[float, float]] = []  # the logarithm of each ratio, and its standard error
    small: list[tuple[int, float, float] | None] = []  # the same with its place; None for a step
    last = None
    limit = entries[-1].limit
    for entry in entries:
        point = next((one for one in entry.points if one.name == name), None)
        found = _log(point) if point is not None else None
        if point is None or found is None:
            continue
        begins = entry.base != last
        if begins:
            chain, small = [], []
        chain.append(found)
        small.append(None if _is_step(point, limit) else (len(steps), *found))
        last = entry.commit
        steps.append(_step(entry, point, chain, begins=begins))
    return Trace(name, tuple(steps), _drift(small, [step.total for step in steps], limit))


def _is_step(point: HistoryPoint, limit: float) -> bool:
    return (point.low or 0.0) > 1.0 + limit or (point.high or math.inf) < 1.0 / (1.0 + limit)


def _step(
    entry: HistoryEntry, point: HistoryPoint, chain: Sequence[tuple[float, float]], *, begins: bool
) -> CommitStep:
    log, error = _sum(chain)
    half = normal_quantile(0.5 + _LEVEL / 2.0) * error
    total, low, high = (math.exp(max(-50.0, min(50.0, end))) for end in (log, log - half, log + half))
    return CommitStep(point, LevelPoint(entry.commit, entry.committed_utc, total, low, high, len(chain)), begins)


def _drift(
    chain: Sequence[tuple[int, float, float] | None], totals: Sequence[LevelPoint], limit: float
) -> LevelChange | None:
    """Return the longest span that is proven to be slower by more than the limit, by more than one commit."""
    spans = sorted({min(span, len(chain)) for span in SPANS}, reverse=True)
    z = normal_quantile(1.0 - (1.0 - _LEVEL) / (2.0 * len(SPANS)))  # Bonferroni
    for span in spans:
        small = [one for one in chain[-span:] if one is not None]
        if len(small) < 2:
            continue
        log, error = _sum([one[1:] for one in small])
        if log - z * error > math.log1p(limit):
            value, low, high = (math.exp(min(50.0, end)) for end in (log, log - z * error, log + z * error))
            ratio = Estimate(value, low, high, _LEVEL, "ratio", "product of ratios", len(small), len(small))
            at = small[0][0]
            begin = totals[at]
            return LevelChange(at, begin.run_id, begin.started_utc, ratio, judgement(low, high, _TIME), ())
    return None


def _sum(chain: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of independent logarithms and its standard error."""
    return math.fsum(log for log, _ in chain), math.sqrt(math.fsum(error**2 for _, error in chain))


def _log(point: HistoryPoint) -> tuple[float, float] | None:
    """Return the logarithm of a ratio and its standard error, from its interval (taken for normal)."""
    if point.ratio is None or point.low is None or point.high is None or not point.low <= point.ratio <= point.high:
        return None
    half = math.log(point.high / point.low) / 2.0
    return math.log(point.ratio), half / normal_quantile(0.5 + point.level / 2.0)


_SHORT = 9  # digits of a commit
_LARGEST = 1e6
_LONGEST_COMMAND = 1000  # characters


class ChangeVerdict(StrEnum):
    """What a change does to a benchmark, in the words of the comment."""

    SLOWER = "slower"
    FASTER = "faster"
    UNCHANGED = "unchanged"
    UNDECIDED = "undecided"
    NO_BASELINE = "no baseline"
    FAILED = "failed"


_VERDICTS = {
    Judgement.WORSE: ChangeVerdict.SLOWER,
    Judgement.BETTER: ChangeVerdict.FASTER,
    Judgement.SAME: ChangeVerdict.UNCHANGED,
    Judgement.UNCLEAR: ChangeVerdict.UNDECIDED,
}


class OtherResult(msgspec.Struct, frozen=True):
    """The first result that differs: `what` it is, of the base and of the change. A time of other work is no speed."""

    what: str
    base: float
    head: float


class BenchmarkChange(msgspec.Struct, frozen=True):
    """One benchmark. `ratio`: time of a step of the change ÷ of the base; None where it is not known.

    `beyond`: it is proven to be slower by more than the limit; `open`: it may be. `why`: of a failure, of no baseline,
    and of undecided without a ratio. `command`: what measures it again; `step_time_s`: the median of the change.
    `other`: where the change computes something else; None where it does not, or nothing tells.
    """

    name: str
    verdict: ChangeVerdict
    ratio: Estimate | None = None
    beyond: bool = False
    open: bool = True
    why: Statement | str | None = None  # words: of git, or of what was measured
    command: tuple[str, ...] = ()
    price: Price | None = None
    pairs: int = 0
    device: str | None = None
    step_time_s: float | None = None
    other: OtherResult | None = None


def why_text(change: BenchmarkChange) -> str | None:
    """Return why a benchmark has no ratio, in English."""
    return not_compared(change.why.id, change.why.values) if isinstance(change.why, Statement) else change.why


def change_of(
    one: CiBenchmark, result: CiResult, runs: Mapping[str, Run], limit: float, per_hour: float | None = None
) -> BenchmarkChange:
    """Return what is known of a benchmark of `result`. `limit`: relative; `per_hour`: the price of the machine.

    `runs`: those that were read, by their ids. A record that does not compare the two commits of `result` is a failure.
    """
    command = ab_command(one, result)
    if one.state is State.NO_BASELINE or result.base is None:
        return BenchmarkChange(one.name, ChangeVerdict.NO_BASELINE, why=one.why or result.why_no_base, command=command)
    if one.state is not State.MEASURED:
        why = one.why or "the job ended before it was measured"
        return BenchmarkChange(one.name, ChangeVerdict.FAILED, why=why, command=command)
    run = runs.get(one.run_id or "")
    if run is None or not isinstance(run.answer, AbResult):
        return BenchmarkChange(
            one.name, ChangeVerdict.FAILED, why="its record is missing, or has no comparison", command=command
        )
    head = result.base if one is result.control else result.head
    comparison = run.answer.comparison
    if (fault := _of_other_commits(run, comparison, result.base, head)) is not None:
        return BenchmarkChange(one.name, ChangeVerdict.FAILED, why=fault, command=command)
    found = _measured(one.name, run, comparison, result.margin, limit, command, per_hour)
    comparisons = len(result.benchmarks) + (result.control is not None)
    return (
        msgspec.structs.replace(found, why=of_the_job(found.why, comparisons))
        if isinstance(found.why, Statement)
        else found
    )


def ab_command(one: CiBenchmark, result: CiResult) -> tuple[str, ...]:
    """Return the command that measures a benchmark alone; empty where no words do, or they cannot be copied."""
    margin = () if result.margin == Rules().margin else ("--margin", f"{100.0 * result.margin:g}%")
    words = with_flags(("torchstone", "ab", str(result.base)[:_SHORT], result.head[:_SHORT], *one.words), *margin)
    fits = all(map(str.isprintable, words)) and sum(map(len, words)) <= _LONGEST_COMMAND
    return words if one.words and result.base is not None and fits else ()


def _measured(
    name: str,
    run: Run,
    found: Comparison,
    margin: float,
    limit: float,
    command: tuple[str, ...],
    per_hour: float | None,
) -> BenchmarkChange:
    about: dict[str, Any] = {"command": command, "device": _device(run), "step_time_s": _step_time_s(run, found)}
    about["other"] = _other_result(run)
    if found.verdict is Judgement.NOT_COMPARABLE:
        verdict = ChangeVerdict.NO_BASELINE if _only_the_base_failed(run) else ChangeVerdict.FAILED
        return BenchmarkChange(name, verdict, why=found.why or "its sides are not comparable", **about)
    ratio = found.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return BenchmarkChange(name, ChangeVerdict.UNDECIDED, why=found.why or "too few pairs of processes", **about)
    ends = (ratio.low, ratio.value, ratio.high)
    if not 1.0 / _LARGEST <= ends[0] <= ends[1] <= ends[2] <= _LARGEST or not 0.0 < ratio.level < 1.0:
        return BenchmarkChange(name, ChangeVerdict.FAILED, why="the interval in its record is none", **about)
    verdict = _VERDICTS[judgement(ratio.low, ratio.high, _TIME, margin)]
    price = price_of(run, command, per_hour) if verdict is ChangeVerdict.UNDECIDED else None
    pairs = max(0, min(ratio.trials, 10**6))
    beyond = verdict is ChangeVerdict.SLOWER and ratio.low > 1.0 + limit
    open_ = ratio.high > 1.0 + max(limit, margin)
    return BenchmarkChange(name, verdict, ratio, beyond, open_, price=price, pairs=pairs, **about)


def _of_other_commits(run: Run, found: Comparison, base: str, head: str) -> str | None:
    """Return what is wrong where a record does not compare these two commits by the time of a step."""
    cases = {case.case_id: case for case in run.head.plan.cases}
    for side, commit in ((found.baseline, base), (found.candidate, head)):
        case = cases.get(side.case_id)
        if case is None or case.workload.fixed.get("revision") != commit:
            return f"its record is of another commit than {commit[:_SHORT]}"
    return None if found.metric == _TIME else f"its record compares {found.metric[:40]}, not the time of a step"


def _other_result(run: Run) -> OtherResult | None:
    apart, cases = results_apart(run.trials), run.head.plan.cases
    return OtherResult(result_words(cases[0].workload.task), apart.one, apart.other) if apart and cases else None


def _only_the_base_failed(run: Run) -> bool:
    failed = {t.facts.side for t in run.trials if t.outcome.status not in (Status.OK, Status.SKIPPED)}
    return failed == {"A"}


def _device(run: Run) -> str | None:
    cases = run.head.plan.cases
    if not cases:
        return None
    placed, host = cases[0].placement, run.head.machine.host
    info = run.head.machine.device(placed.device, placed.index)
    return host.processor if placed.device == "cpu" else info.name if info is not None else placed.device


def _step_time_s(run: Run, found: Comparison) -> float | None:
    """Return the median over the processes of the change."""
    told = [
        figures(t).values.get(_TIME)
        for t in run.trials
        if t.facts.side == "B" and t.outcome.status == Status.OK and t.case_id == found.candidate.case_id
    ]
    known = [value for value in told if value is not None and math.isfinite(value) and value > 0.0]
    return median(known) if known else None


FIRST_SHARE = 0.7  # of a job's time, for measuring each benchmark once; the rest is for what stays undecided
_MOST_S = 86_400.0  # a day: more is no advice
_SECONDS_AN_HOUR = 3600.0


class Price(msgspec.Struct, frozen=True):
    """`words`: the command; empty where none decides. `within_s`: its time; `pairs`: of processes, in all (80 % power).

    `cost`: at the price of an hour that was given, without a currency. `margin`: where no time in reach decides, the
    equivalence margin with which the interval that was found would.
    """

    words: tuple[str, ...] = ()
    within_s: float | None = None
    pairs: int | None = None
    cost: float | None = None
    margin: float | None = None


def price_of(run: Run, command: Sequence[str], per_hour: float | None = None) -> Price:
    """Return what would decide the comparison of `run`; a Price without a time where that is not known.

    `command`: `torchstone ab BASE HEAD …` as it was; empty where no words measure it alone. The record may be a
    stranger's: what cannot be is taken for unknown.
    """
    if not isinstance(run.answer, AbResult) or (found := run.answer.comparison).ratio is None:
        return Price()
    course, more, other = run.answer.course, found.trials_to_settle, found.with_other_threads
    choices: list[tuple[float, int, tuple[str, ...]]] = []
    if more is not None and more > 0 and course.elapsed_s > 0.0 and course.pairs > 0:
        choices.append((_longer_s(run, course.elapsed_s) * (1.0 + more / course.pairs), course.pairs + more, ()))
    if other is not None and other.pairs_needed > 0 and 0 < other.threads < 10_000:
        choices.append((other.within_s, other.pairs_needed, ("--axis", f"threads={other.threads}")))
    choices = [one for one in choices if 0.0 < one[0] <= _MOST_S]
    if not choices:
        return Price(margin=_margin(found.ratio.low, found.ratio.high))
    within_s, pairs, flags = min(choices)
    words = with_flags(command, *flags, "--within", within_words(within_s)) if command else ()
    cost = per_hour * within_s / _SECONDS_AN_HOUR if per_hour is not None else None
    return Price(words, within_s, pairs, cost)


def with_flags(command: Sequence[str], *flags: str) -> tuple[str, ...]:
    """Return a command with further flags: before what stands behind --, which is a program's."""
    end = command.index("--") if "--" in command else len(command)
    return (*command[:end], *flags, *command[end:])


def of_the_job(why: Statement, comparisons: int) -> Statement:
    """Return why a comparison has no ratio, with the time that is enough for it turned into that of the whole job."""
    reason, _, enough = why.id.partition(".")
    needed_s = why.values.get("needed_s")
    if enough != "enough" or not isinstance(needed_s, int | float):
        return why
    within = within_words(needed_s * comparisons / FIRST_SHARE)
    return Statement(f"{reason}.enough_for_all", {**why.values, "within": within})


def within_words(seconds: float) -> str:
    """Return a time for --within, rounded up: 41 → "50s", 61 → "2m"."""
    return f"{math.ceil(seconds / 10.0) * 10}s" if seconds <= 60.0 else f"{math.ceil(seconds / 60.0)}m"


def _longer_s(run: Run, recorded_s: float) -> float:
    """Return what the test took: a record has the time of its processes, its budget that of starting them, too."""
    given_s = run.head.ab.budget_s if run.head.ab is not None else 0.0
    return max(recorded_s, given_s) if 0.0 < given_s <= 2.0 * recorded_s else recorded_s


def _margin(low: float | None, high: float | None) -> float | None:
    if low is None or high is None or not 0.0 < low <= high:
        return None
    most = max(high, 1.0 / low) - 1.0
    return math.ceil(100.0 * most) / 100.0 if most < 0.99 else None


class Conclusion(StrEnum):
    """What follows for the pull request. Only SLOWER is the fault of its code."""

    PASSED = "passed"
    ACCEPTED = "accepted"  # slower beyond the limit, with a label and a written reason
    SLOWER = "slower"  # proven beyond the limit
    FAILED = "failed"  # a benchmark could not be measured
    NO_BASELINE = "no baseline"
    UNDECIDED = "undecided"


class Acceptance(msgspec.Struct, frozen=True):
    """A label that accepts a slower change, and the reason that somebody wrote; None: there is no reason yet."""

    label: str
    reason: str | None


class Assessment(msgspec.Struct, frozen=True):
    """All that a comment has. `control`: the base against itself; None where it was not measured.

    `limit`: a change may not be slower by more (relative). `environment`: names with their values, for people.
    """

    result: CiResult
    limit: float
    changes: tuple[BenchmarkChange, ...]
    control: BenchmarkChange | None
    conclusion: Conclusion
    acceptance: Acceptance | None = None
    environment: tuple[tuple[str, str], ...] = ()

    def of(self, *verdicts: ChangeVerdict) -> list[BenchmarkChange]:
        """Return the changes with one of these verdicts, the slowest first."""
        found = [one for one in self.changes if one.verdict in verdicts]
        return sorted(found, key=lambda one: (-one.ratio.value if one.ratio is not None else 0.0, one.name))

    @property
    def counts(self) -> Counter[ChangeVerdict]:
        """How many there are of each verdict."""
        return Counter(one.verdict for one in self.changes)

    @property
    def with_other_results(self) -> list[BenchmarkChange]:
        """The benchmarks that compute something else than the base; none where the base differs from itself."""
        if self.control is not None and self.control.other is not None:
            return []
        return [one for one in self.changes if one.other is not None]

    @property
    def is_decided(self) -> bool:
        """Whether there is something to tell people: a verdict that is proven, or that one is missing."""
        if self.conclusion not in (Conclusion.PASSED, Conclusion.UNDECIDED):
            return True
        return self.is_reliable and bool(self.of(ChangeVerdict.SLOWER, ChangeVerdict.FASTER))

    @property
    def is_reliable(self) -> bool:
        """Whether the control, where there is one, was not found to differ from itself."""
        return self.control is None or self.control.verdict not in (ChangeVerdict.SLOWER, ChangeVerdict.FASTER)

    @property
    def floor(self) -> float | None:
        """How far from 1 the control's interval reaches (relative); None without one."""
        ratio = self.control.ratio if self.control is not None else None
        if ratio is None or ratio.low is None or ratio.high is None:
            return None
        return max(ratio.high, 1.0 / ratio.low) - 1.0


def assess(
    result: CiResult,
    runs: Mapping[str, Run],
    *,
    limit: float | None = None,
    per_hour: float | None = None,
    acceptance: Acceptance | None = None,
) -> Assessment:
    """Return the assessment of a result. `limit`: in place of its own; `per_hour`: the price of an hour of the machine.

    `runs`: its records, by their ids (ci_folder.read_result). A limit below the equivalence margin is taken for that:
    an equal benchmark would exceed it.
    """
    most = max(result.margin, result.limit if limit is None else limit)
    changes = tuple(change_of(one, result, runs, most, per_hour) for one in result.benchmarks)
    control = change_of(result.control, result, runs, most) if result.control is not None else None
    made = Assessment(result, most, changes, control, Conclusion.PASSED, acceptance, _environment(runs))
    return msgspec.structs.replace(made, conclusion=_conclusion(made))


def _conclusion(found: Assessment) -> Conclusion:
    verdicts = found.counts
    is_slower = found.is_reliable and any(one.beyond for one in found.changes)
    if is_slower and not (found.acceptance is not None and found.acceptance.reason):
        return Conclusion.SLOWER
    if verdicts[ChangeVerdict.FAILED]:
        return Conclusion.FAILED
    if verdicts[ChangeVerdict.NO_BASELINE] or not found.changes:
        return Conclusion.NO_BASELINE
    if is_slower:
        return Conclusion.ACCEPTED
    is_open = not found.is_reliable or any(one.open for one in found.changes)
    return Conclusion.UNDECIDED if is_open else Conclusion.PASSED


def _environment(runs: Mapping[str, Run]) -> tuple[tuple[str, str], ...]:
    """Return what the records were measured on and with: each different value once."""
    rows: dict[str, dict[str, None]] = {}
    for run in runs.values():
        machine = run.head.machine
        told = {"host": machine.host.hostname, "processor": machine.host.processor, "system": machine.host.platform}
        told |= {f"device {device.kind}:{device.index}": device.name for device in machine.devices}
        told |= {name: machine.software.get(name) for name in ("torch", "python")}
        for name, value in told.items():
            if value and len(rows) < 20 and len(rows.setdefault(name, {})) < 5:
                rows[name][value] = None
    return tuple((name, ", ".join(values)) for name, values in rows.items() if values)

"""The verdict on each benchmark of a change, computed again from the interval in its record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from statistics import median
from typing import Any

import msgspec

from torchstone.analysis.ci.price import Price, of_the_job, price_of, with_flags
from torchstone.analysis.compare.ab_sides import result_words, results_apart
from torchstone.core.figures import figures
from torchstone.core.messages import not_compared
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import AbResult
from torchstone.core.schema.ci import CiBenchmark, CiResult, State
from torchstone.core.schema.comparison import Comparison, Judgement, Rules, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status

_SHORT = 9  # digits of a commit
_LARGEST = 1e6
_LONGEST_COMMAND = 1000  # characters


class Verdict(StrEnum):
    """What a change does to a benchmark, in the words of the comment."""

    SLOWER = "slower"
    FASTER = "faster"
    UNCHANGED = "unchanged"
    UNDECIDED = "undecided"
    NO_BASELINE = "no baseline"
    FAILED = "failed"


_VERDICTS = {
    Judgement.WORSE: Verdict.SLOWER, Judgement.BETTER: Verdict.FASTER,
    Judgement.SAME: Verdict.UNCHANGED, Judgement.UNCLEAR: Verdict.UNDECIDED,
}  # fmt: skip


class OtherResult(msgspec.Struct, frozen=True):
    """The first result that differs: `what` it is, of the base and of the change. A time of other work is no speed."""

    what: str
    base: float
    head: float


class Change(msgspec.Struct, frozen=True):
    """One benchmark. `ratio`: time of a step of the change ÷ of the base; None where it is not known.

    `beyond`: it is proven to be slower by more than the limit; `open`: it may be. `why`: of a failure, of no baseline,
    and of undecided without a ratio. `command`: what measures it again; `step_time_s`: the median of the change.
    `other`: where the change computes something else; None where it does not, or nothing tells.
    """

    name: str
    verdict: Verdict
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


def why_text(change: Change) -> str | None:
    """Return why a benchmark has no ratio, in English."""
    return not_compared(change.why.id, change.why.values) if isinstance(change.why, Statement) else change.why


def change_of(
    one: CiBenchmark, result: CiResult, runs: Mapping[str, Run], limit: float, per_hour: float | None = None
) -> Change:
    """Return what is known of a benchmark of `result`. `limit`: relative; `per_hour`: the price of the machine.

    `runs`: those that were read, by their ids. A record that does not compare the two commits of `result` is a failure.
    """
    command = ab_command(one, result)
    if one.state is State.NO_BASELINE or result.base is None:
        return Change(one.name, Verdict.NO_BASELINE, why=one.why or result.why_no_base, command=command)
    if one.state is not State.MEASURED:
        why = one.why or "the job ended before it was measured"
        return Change(one.name, Verdict.FAILED, why=why, command=command)
    run = runs.get(one.run_id or "")
    if run is None or not isinstance(run.answer, AbResult):
        return Change(one.name, Verdict.FAILED, why="its record is missing, or has no comparison", command=command)
    head = result.base if one is result.control else result.head
    comparison = run.answer.comparison
    if (fault := _of_other_commits(run, comparison, result.base, head)) is not None:
        return Change(one.name, Verdict.FAILED, why=fault, command=command)
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
    name: str, run: Run, found: Comparison, margin: float, limit: float, command: tuple[str, ...],
    per_hour: float | None,
) -> Change:  # fmt: skip
    about: dict[str, Any] = {"command": command, "device": _device(run), "step_time_s": _step_time_s(run, found)}
    about["other"] = _other_result(run)
    if found.verdict is Judgement.NOT_COMPARABLE:
        verdict = Verdict.NO_BASELINE if _only_the_base_failed(run) else Verdict.FAILED
        return Change(name, verdict, why=found.why or "its sides are not comparable", **about)
    ratio = found.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return Change(name, Verdict.UNDECIDED, why=found.why or "too few pairs of processes", **about)
    ends = (ratio.low, ratio.value, ratio.high)
    if not 1.0 / _LARGEST <= ends[0] <= ends[1] <= ends[2] <= _LARGEST or not 0.0 < ratio.level < 1.0:
        return Change(name, Verdict.FAILED, why="the interval in its record is none", **about)
    verdict = _VERDICTS[judge(ratio.low, ratio.high, margin, higher_is_better=False)]
    price = price_of(run, command, per_hour) if verdict is Verdict.UNDECIDED else None
    pairs = max(0, min(ratio.trials, 10**6))
    beyond = verdict is Verdict.SLOWER and ratio.low > 1.0 + limit
    open_ = ratio.high > 1.0 + max(limit, margin)
    return Change(name, verdict, ratio, beyond, open_, price=price, pairs=pairs, **about)


def _of_other_commits(run: Run, found: Comparison, base: str, head: str) -> str | None:
    """Return what is wrong where a record does not compare these two commits by the time of a step."""
    cases = {case.case_id: case for case in run.head.plan.cases}
    for side, commit in ((found.baseline, base), (found.candidate, head)):
        case = cases.get(side.case_id)
        if case is None or case.workload.fixed.get("revision") != commit:
            return f"its record is of another commit than {commit[:_SHORT]}"
    return (
        None if found.metric == "step_time_mean" else f"its record compares {found.metric[:40]}, not the time of a step"
    )


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
        figures(t).values.get("step_time_mean") for t in run.trials
        if t.facts.side == "B" and t.outcome.status == Status.OK and t.case_id == found.candidate.case_id
    ]  # fmt: skip
    known = [value for value in told if value is not None and math.isfinite(value) and value > 0.0]
    return median(known) if known else None

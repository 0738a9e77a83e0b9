"""Measures both commits of a change in one job, interleaved by `ab`, within one budget; undecided ones again.

The bound on false alarms is for the job as a whole: each of at most two tests a benchmark, and of the control, gets an
equal part of it (Bonferroni).
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from torchstone.analysis.ci import FIRST_SHARE, BenchmarkChange, ChangeVerdict, change_of, why_text
from torchstone.config.recipe_files import load_request
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import model_name
from torchstone.core.schema.ci import MOST_BENCHMARKS, CiBenchmark, CiResult, State
from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.run import SCHEMA, Run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.program.workspace import add_untracked
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.storage.ci_folder import write_result
from torchstone.storage.record_reader import read_record
from torchstone.workflows.ab.experiment import as_ab_does
from torchstone.workflows.ab.live_comparison import AbCampaign, SideError
from torchstone.workflows.ab.sides import Revision, SideRequest, checked_out, sketched
from torchstone.workflows.run.planned_run import ProgramRequest, check, name_of

_LONGEST = 200


class BenchmarkSpec(msgspec.Struct, frozen=True):
    """One workload with one value of every axis, or a command (`program`).

    `words`: what `torchstone ab BASE HEAD` takes for it; or none.
    """

    name: str
    request: RunRequest
    words: tuple[str, ...]
    program: ProgramRequest | None = None


def benchmarks(files: Sequence[str]) -> list[BenchmarkSpec]:
    """Return the benchmarks of run files or recipes, with names of their own. Raises UsageError, naming the file."""
    found = [one for word in files for one in _of_file(word)]
    if len(found) > MOST_BENCHMARKS:
        raise UsageError(f"{len(found)} benchmarks are too many: {MOST_BENCHMARKS} at most; give fewer values of axes")
    twice = {name for name, count in Counter(one.name for one in found).items() if count > 1}
    named = []
    for place, one in enumerate(found, 1):
        name = one.name if one.name not in twice else f"{one.name[: _LONGEST - 6]}#{place}"
        named.append(msgspec.structs.replace(one, name=name))
    return named


def of_program(program: ProgramRequest) -> BenchmarkSpec:
    """Return the benchmark of a command. Raises UsageError for a place in it without a value."""
    check(program)
    request = RunRequest(workloads=(), name=program.name, device=program.device, procedure=program.procedure)
    words = (*(("--step", program.step) if program.step != "auto" else ()), "--", *program.words)
    return BenchmarkSpec(name_of(program)[:_LONGEST], request, words if _sayable(words) else (), program)


def _sayable(words: Sequence[str]) -> bool:
    return len(words) <= 30 and all(len(one) <= 300 for one in words)


def _of_file(word: str) -> Iterator[BenchmarkSpec]:
    request = load_request(word)
    if "," in request.device:
        raise UsageError(f"{word}: device {request.device}: a benchmark has one device; write a file for each")
    stem = request.name or Path(word).stem
    tasks = Counter(workload.task for workload in request.workloads)
    for workload in request.workloads:
        varied = [name for name, values in workload.axes.items() if len(values) > 1]
        points = list(_points(workload, varied, request))
        if not points:
            raise UsageError(f"{word}: exclude leaves nothing of {workload.task} {workload.model}")
        for point in points:
            yield _benchmark(word, stem, request, workload, point, tasks)


def _points(workload: WorkloadRequest, varied: Sequence[str], request: RunRequest) -> Iterator[Mapping[str, Scalar]]:
    fixed = {name: values[0] for name, values in workload.axes.items() if len(values) == 1}
    for values in itertools.product(*(workload.axes[name] for name in varied)):
        point = dict(zip(varied, values, strict=True))
        if not any(condition.holds({**fixed, **point}) for condition in request.exclude):
            yield point


def _benchmark(
    word: str,
    stem: str,
    request: RunRequest,
    workload: WorkloadRequest,
    point: Mapping[str, Scalar],
    tasks: Mapping[str, int],
) -> BenchmarkSpec:
    parts = [stem]
    if len(tasks) > 1:
        parts.append(workload.task)
    if tasks[workload.task] > 1:
        parts.append(model_name(workload.model))
    parts += [f"{name}={value}" for name, value in point.items()]
    axes = {**workload.axes, **{name: (value,) for name, value in point.items()}}
    alone = msgspec.structs.replace(
        request,
        workloads=(msgspec.structs.replace(workload, axes=axes),),
        exclude=(),
        procedure=as_ab_does(request.procedure),
    )
    words = ["--config", word, *(["--task", workload.task] if len(tasks) > 1 else [])]
    words += [text for name, value in point.items() for text in ("--axis", f"{name}={scalar_word(value)}")]
    sayable = tasks[workload.task] == 1 and _sayable(words)
    return BenchmarkSpec("/".join(parts)[:_LONGEST], alone, tuple(words) if sayable else ())


USUAL_S = 90.0  # a benchmark
_LEAST_S = 10.0  # that a test is worth beginning
_TESTS = 2  # a benchmark, at most
_LONGEST_WHY = 2000

Compare = Callable[[tuple[SideRequest, SideRequest], Rules, Path], Run]


def least_s(tests: int) -> float:
    """Return the least time in which so many comparisons, the control among them, can be begun."""
    return _LEAST_S * tests / FIRST_SHARE


class CiRequest(msgspec.Struct, frozen=True):
    """What was asked for: commits, and the bounds of CiResult. `control`: measure the base against itself, too."""

    base: str | None
    head: str
    within_s: float
    margin: float = 0.02
    limit: float = 0.02
    false_alarms: float = 0.05
    control: bool = True
    why_no_base: str | None = None
    committed_utc: str | None = None
    seed: int = 0


class CiMeasurement:
    """One `torchstone ci measure`. After each benchmark ci.json is written: a job that is cut off keeps the others."""

    def __init__(
        self,
        request: CiRequest,
        benchmarks: Sequence[BenchmarkSpec],
        folder: Path,
        say: Callable[[str], None] = lambda _: None,
        busy: WhenBusy = SHARE,
        compare: Compare | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """`compare`: in place of a live comparison of two sides under rules, into a folder."""
        self._asked, self._benchmarks, self._folder, self._say, self._busy = request, benchmarks, folder, say, busy
        self._compare, self._clock, self._began_s = compare or self._live, clock, clock()
        planned = tuple(CiBenchmark(one.name, one.words) for one in benchmarks)
        control = CiBenchmark("control", benchmarks[0].words) if request.control and request.base is not None else None
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self._result = CiResult(
            SCHEMA,
            request.base,
            request.head,
            began,
            request.within_s,
            request.margin,
            request.limit,
            request.false_alarms,
            planned,
            control,
            request.why_no_base,
            committed_utc=request.committed_utc,
        )
        self._runs: dict[str, Run] = {}

    def carry_out(self, here: Path) -> CiResult:
        """Measure all, and return the result; ci.json has it. `here`: a folder of the repository, which both have.

        Raises UsageError where the head lacks that folder.
        """
        if self._asked.base is None:
            why = self._asked.why_no_base
            without = [
                msgspec.structs.replace(one, state=State.NO_BASELINE, why=why) for one in self._result.benchmarks
            ]
            self._keep(benchmarks=tuple(without))
            return self._result
        with contextlib.ExitStack() as until_then:
            head = until_then.enter_context(checked_out(_revision(self._asked.head, "head"), here))
            base, why = self._base_folder(here, until_then)
            if any(one.program is not None for one in self._benchmarks):
                for folder in filter(None, (base, head)):
                    add_untracked(here, folder)
            self._all_once(base, head, why)
            if base is not None:
                self._undecided_again(base, head)
        return self._result

    def _base_folder(self, here: Path, until_then: contextlib.ExitStack) -> tuple[Path | None, str | None]:
        assert self._asked.base is not None
        try:
            return until_then.enter_context(checked_out(_revision(self._asked.base, "base"), here)), None
        except UsageError as fault:
            return None, str(fault)

    def _all_once(self, base: Path | None, head: Path, why: str | None) -> None:
        count = len(self._benchmarks)
        for place, one in enumerate(self._benchmarks):
            to_come = count - place + (self._result.control is not None)
            within_s = max(_LEAST_S, (FIRST_SHARE * self._asked.within_s - self._spent_s()) / to_come)
            told = self._result.benchmarks[place]
            if base is None:
                told = msgspec.structs.replace(told, state=State.NO_BASELINE, why=(why or "not found")[:_LONGEST_WHY])
            else:
                told = self._measured(told, one, (base, head), within_s)
            self._put(place, told)
            self._tell(told, f"{place + 1} of {count}")
        if self._result.control is not None:
            self._control(base)

    def _control(self, base: Path | None) -> None:
        """Measure the base against itself, with the first benchmark that it has; without one there is no control."""
        states = [one.state for one in self._result.benchmarks]
        if base is None or State.MEASURED not in states:
            self._keep(control=None)
            return
        one = self._benchmarks[states.index(State.MEASURED)]
        planned = CiBenchmark("control", one.words)
        self._keep(control=planned)
        within_s = max(_LEAST_S, FIRST_SHARE * self._asked.within_s - self._spent_s())
        told = self._measured(planned, one, (base, base), within_s)
        self._keep(control=told)
        self._tell(told, "base against itself")

    def _undecided_again(self, base: Path, head: Path) -> None:
        """Measure undecided benchmarks once more, those that need the least time first, as far as the time goes."""
        open_ = []
        for place, one in enumerate(self._result.benchmarks):
            if one.state is not State.MEASURED:
                continue
            change = change_of(one, self._result, self._runs, self._asked.limit)
            needed_s = change.price.within_s if change.price is not None else self._longer_s(change, one)
            if change.verdict is ChangeVerdict.UNDECIDED and change.open and needed_s is not None:
                open_.append((needed_s, place))
        for number, (needed_s, place) in enumerate(sorted(open_)):
            left_s = self._asked.within_s - self._spent_s()
            if needed_s > left_s:
                continue  # one that is measured too short again stays undecided
            # What is left over is shared: longer than needed is more likely to decide.
            within_s = max(needed_s, left_s / (len(open_) - number))
            before = self._result.benchmarks[place]
            after = self._measured(before, self._benchmarks[place], (base, head), within_s)
            if after.state is State.MEASURED and before.run_id is not None:
                after = msgspec.structs.replace(after, earlier=(*before.earlier, before.run_id))
                self._put(place, after)
                self._tell(after, "again")

    def _longer_s(self, change: BenchmarkChange, one: CiBenchmark) -> float | None:
        """Return twice the time of a comparison that had no time for enough pairs; None for any other."""
        rules = self._runs[one.run_id or ""].head.ab
        return 2.0 * rules.budget_s if change.ratio is None and rules is not None else None

    def _measured(
        self, told: CiBenchmark, one: BenchmarkSpec, folders: tuple[Path, Path], within_s: float
    ) -> CiBenchmark:
        """Return the benchmark as it is after a comparison; a fault of the base alone is no baseline."""
        commits = (self._asked.base, self._asked.base if told is self._result.control else self._asked.head)
        names = ("base", "head" if commits[0] != commits[1] else "base again")
        a, b = (
            SideRequest(f"{str(commit)[:9]} ({name})", one.request, folder, commit, one.program)
            for commit, name, folder in zip(commits, names, folders, strict=True)
        )
        try:
            sketched(b)
        except TorchstoneError as fault:
            return msgspec.structs.replace(told, state=State.FAILED, why=_cut(fault, folders))
        try:
            sketched(a)
        except TorchstoneError as fault:
            return msgspec.structs.replace(told, state=State.NO_BASELINE, why=_cut(fault, folders))
        try:
            run = self._compare((a, b), self._rules(within_s), self._folder)
        except TorchstoneError as fault:
            is_base = isinstance(fault, SideError) and fault.side == a.label
            state = State.NO_BASELINE if is_base else State.FAILED
            return msgspec.structs.replace(told, state=state, why=_cut(fault, folders))
        self._runs[run.head.run_id] = run
        return msgspec.structs.replace(told, state=State.MEASURED, run_id=run.head.run_id, why=None)

    def _rules(self, within_s: float) -> Rules:
        tests = _TESTS * (len(self._benchmarks) + (self._result.control is not None))
        return Rules(self._asked.margin, self._asked.false_alarms / tests, round(within_s, 1), self._asked.seed)

    def _live(self, sides: tuple[SideRequest, SideRequest], rules: Rules, folder: Path) -> Run:
        campaign = AbCampaign(sides, rules, busy=self._busy, strict=True, say=self._say)
        results, _ = campaign.carry_out(folder, ("torchstone", "ci", "measure"))
        return read_record(Path(results.summary.record))

    def _put(self, place: int, told: CiBenchmark) -> None:
        listed = self._result.benchmarks
        self._keep(benchmarks=(*listed[:place], told, *listed[place + 1 :]))

    def _keep(self, **changes: object) -> None:
        self._result = msgspec.structs.replace(self._result, elapsed_s=self._spent_s(), **changes)
        write_result(self._result, self._folder)

    def _spent_s(self) -> float:
        return self._clock() - self._began_s

    def _tell(self, told: CiBenchmark, which: str) -> None:
        change = change_of(told, self._result, self._runs, self._asked.limit)
        why = f" ({why})" if (why := why_text(change)) else ""
        self._say(f"{told.name} ({which}): {change.verdict}{why}")


def _revision(commit: str, name: str) -> Revision:
    return Revision(commit, commit, f"{commit[:9]} ({name})")


def _cut(fault: TorchstoneError, folders: Sequence[Path]) -> str:
    """Return what went wrong, with paths as they are in the repository and not in its work trees."""
    text = str(fault)
    for folder in folders:
        text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    return text[:_LONGEST_WHY]

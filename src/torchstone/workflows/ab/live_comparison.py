"""From two sides to a stored result: check them, rehearse what is the user's own, compare, write, index; its course."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import AbResult, Course
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.comparison import Rules, Side
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.request import effective, notes
from torchstone.core.schema.run import Answered, Head, Plan, Run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.session import refuse_unshared
from torchstone.execution.timing.clock import system_clock
from torchstone.storage.record_reader import record_path
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.ab.experiment import Experiment, ExperimentProgress, ExperimentResult, in_turns
from torchstone.workflows.ab.pair import SessionPool, Variant
from torchstone.workflows.ab.sides import SideRequest, Sketched, case_of, sketched
from torchstone.workflows.run.planned_run import Results, begin_run, code_of, placement_of, published, tried

_CONDITIONS = (
    "heap",
    "pin_threads",
    "cpu_affinity",
    "isolation",
    "settings",
    "seed",
)  # of a Procedure, that a turn is measured under


class SideError(UsageError):
    """A side cannot do a single step. `side`: its label."""

    def __init__(self, side: str, fault: UsageError) -> None:
        super().__init__(f"{side}: {fault}")
        self.side = side


class AbCampaign:
    """One `torchstone ab`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(
        self,
        sides: tuple[SideRequest, SideRequest],
        rules: Rules,
        tell: Callable[[ExperimentProgress], None] = lambda _: None,
        busy: WhenBusy = SHARE,
        *,
        strict: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`strict`, `say`: whether the budget is kept at all costs, and who is told that it is short (Timetable)."""
        self._sides, self._rules, self._strict, self._say = sides, rules, strict, say
        self._tell, self._busy = tell, busy
        _by_one_procedure(sides)
        self._sketched = [sketched(side) for side in sides]

    def carry_out(
        self, folder: Path, command: Sequence[str], began_s: float | None = None
    ) -> tuple[Results, ExperimentResult]:
        """Compare, and write into `folder`; return the results and how the experiment ended.

        `began_s`: when its budget began to run; None: now.
        """
        began_s = system_clock() if began_s is None else began_s
        procedure = self._sides[0].request.procedure
        models = {side.folder: [one.sketch.workload.model for one in self._sketched] for side in self._sketched}
        with SessionPool(models, in_turns(procedure)) as pool:
            machine, found = pool.session(self._sketched[0].folder).inspect()
            words = [side.request.device or "auto" for side in self._sides]
            a, b = (
                _contender(side, case_of(side, word, found, machine), machine)
                for side, word in zip(self._sketched, words, strict=True)
            )
            a, b = _as_measured((a, b))
            placements = list(dict.fromkeys(side.case.placement for side in (a, b)))
            if len(placements) == 1:
                refuse_unshared(a.device)
            told = notes([[side.sketch.configurations[0] for side in self._sketched]], placements)
            first = self._sides[0].request
            with begin_run(
                pool.session(self._sketched[0].folder),
                machine,
                placements,
                first.name or "ab",
                command,
                self._busy,
                source=first.source,
                code=self._code(),
                ab=self._rules,
            ) as (draft, waited_s):
                began_s += waited_s  # waiting for others is not part of the budget
                a, b = self._rehearsed(pool, (a, b), machine)
                plan = Plan(tuple({side.case.case_id: side.case for side in (a, b)}.values()), ())
                head = msgspec.structs.replace(draft, plan=plan)
                with RecordWriter(record_path(folder, head.run_id), head) as writer:
                    experiment = Experiment(
                        a,
                        b,
                        self._rules,
                        pool,
                        began_s,
                        self._tell,
                        writer.append,
                        strict=self._strict,
                        say=self._say,
                        try_one_thread=not a.case.workload.is_program,  # whose threads are its own affair
                    )
                    ended = experiment.run()
                    run = _ended(writer, ended, head, told)
        return published(run, folder), ended

    def _code(self) -> dict[str, str]:
        return {
            f"{side.label}: {model}": sha256
            for side in self._sketched
            for model, sha256 in code_of([side.sketch]).items()
        }

    def _rehearsed(self, pool: SessionPool, sides: Sequence[Variant], machine: Machine) -> list[Variant]:
        """Do one step of each side that is the user's own, and return the sides with what their data decide.

        Two sides that are one and the same are rehearsed once. Raises UsageError naming the side that cannot.
        """
        ready, done = [], dict[tuple[str, Path | None], Case]()
        for side, sketch in zip(sides, self._sketched, strict=True):
            case, left_open = side.case, sketch.sketch.left_open
            what = case.case_id, side.folder
            if what in done:
                case = done[what]
            elif case.workload.is_program:
                try:
                    facts = tried(pool.session(side.folder), case, for_turns=True)
                except UsageError as fault:
                    raise SideError(side.label, fault) from None
                workload = msgspec.structs.replace(case.workload, task=Task(str(facts.task)))
                case = Case(workload, case.configuration, placement_of(facts, case.placement, machine))
            elif sketch.sketch.own:
                try:
                    case = pool.session(side.folder).rehearsed(case, left_open).filled(case, left_open)
                except UsageError as fault:
                    raise SideError(side.label, fault) from None
            done[what] = case
            ready.append(msgspec.structs.replace(side, case=case))
        return ready


def _as_measured(sides: Sequence[Variant]) -> list[Variant]:
    """Return the sides without page-locked memory, where both ask for it and it has no effect."""
    asked = [side.case.configuration for side in sides]
    points = [effective(asked, side.case.placement)[place] for place, side in enumerate(sides)]
    cases = [msgspec.structs.replace(side.case, configuration=point) for side, point in zip(sides, points, strict=True)]
    return [msgspec.structs.replace(side, case=case) for side, case in zip(sides, cases, strict=True)]


def _contender(side: Sketched, case: Case, machine: Machine) -> Variant:
    device = machine.device(case.placement.device, case.placement.index)
    return Variant(side.label, case, side.folder, device)


def _by_one_procedure(sides: tuple[SideRequest, SideRequest]) -> None:
    """Raise UsageError where two files ask for other conditions: what they do would be taken for what B does."""
    a, b = (side.request.procedure for side in sides)
    for name in _CONDITIONS:
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            raise UsageError(
                f"both sides must be measured in the same way, but their files differ in {name}: {one} and {other}; "
                f"set it for both: {_flag(name, one)}"
            )


def _flag(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    return f"--{flag} {value}" if not isinstance(value, bool) else f"--{flag}" if value else f"--no-{flag}"


def _ended(writer: RecordWriter, ended: ExperimentResult, head: Head, told: Sequence[Finding]) -> Run:
    """Write what was found and how it ended, and return the run."""
    sides = [Side(s.label, head.run_id, s.case_id) for s in (ended.comparison.baseline, ended.comparison.candidate)]
    comparison = msgspec.structs.replace(ended.comparison, baseline=sides[0], candidate=sides[1])
    writer.append(Answered(AbResult(comparison, course_of(ended))))
    return writer.end(told, "done")


def course_of(ended: ExperimentResult) -> Course:
    """Return the course of a comparison that has just ended."""
    spent, elapsed_s = ended.spent, ended.elapsed_s
    pinned = [cores for t in ended.trials if isinstance(cores := t.facts.threads_pinned, int)]
    return Course(
        ended.pairs,
        ended.templates,
        elapsed_s,
        ended.stopped_because,
        spent.measured_s / elapsed_s if spent and spent.measured_s and elapsed_s else None,
        min(pinned, default=None),
        {name.removesuffix("_s"): value for name, value in msgspec.structs.asdict(spent).items()} if spent else {},
        ended.needed_s,
    )

"""Measuring somebody's own program as it is typed: `torchstone run -- python train.py --batch_size {batch_size}`."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Event, Measured, RehearseRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.execution import plan
from torchstone.execution.controller.active_run import take_all
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.plan import Sketch
from torchstone.execution.program.trial import SCHEME, words_of
from torchstone.execution.timing.clock import system_clock
from torchstone.storage.measured import usual_spread
from torchstone.workflows.campaign import begun
from torchstone.workflows.run.results import Results, published

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
STEPS = ("auto", "optimizer", "backward", "forward")  # with what a step ends


class ProgramRequest(msgspec.Struct, frozen=True):
    """What was typed: the words of the command, values of the axes that stand in it as `{name}`, and how to measure.

    `step`: with what a step of the program ends; auto: an optimizer's step, or a forward pass without gradients.
    """

    words: tuple[str, ...]
    axes: Mapping[str, tuple[Scalar, ...]]
    procedure: Procedure
    name: str | None = None
    device: str = "auto"
    item: str = "sample"
    step: str = "auto"


def check(request: ProgramRequest) -> None:
    """Raise UsageError for an axis without a place in the command, and a place without an axis."""
    places = {name for word in request.words for name in PLACEHOLDER.findall(word)}
    for name in request.axes:
        if name not in places:
            raise UsageError(f"axis {name}: the command has no {{{name}}}; write it where the value goes")
    whole = {found[1] for word in request.words if (found := re.fullmatch(r"(?:[^=]*=)?\{([A-Za-z_]\w*)\}", word))}
    for name in sorted(whole - set(request.axes)):
        raise UsageError(f"{{{name}}} has no values: --axis {name}=V1,V2 before the --")


class ProgramCampaign:
    """One `torchstone run -- COMMAND`. The command is tried, to its second step, before anything is written."""

    def __init__(self, request: ProgramRequest, watcher: Watcher, busy: WhenBusy = SHARE) -> None:
        check(request)
        self._request, self._watcher, self._busy = request, watcher, busy

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Measure into `folder`. Raises UsageError where the command fails, or has no step that can be seen."""
        began_s, request = system_clock(), self._request
        with Session(request.procedure, (), self._watcher) as session:
            machine, found = session.inspect()
            placement = plan.place(request.device, found, machine)
            with begun(
                session, machine, [placement], name_of(request), command, self._busy,
                usual=usual_spread(folder, machine),
            ) as (draft, waited_s):  # fmt: skip
                facts = tried(session, Case(workload_of(request), next(configurations(request)), placement))
                placement = placed(facts, placement, machine)
                workload = workload_of(request, Task(str(facts.task)))
                sketch = Sketch(workload, tuple(configurations(request)), own=True)
                how = session.procedure
                whole = plan.arrange([sketch], [placement], machine, how.repetitions, how.seed)
                head = msgspec.structs.replace(draft, plan=whole)
                run = take_all(session, head, folder, began_s + waited_s)
        return published(run, folder)


def tried(session: Session, case: Case) -> Facts:
    """Run a command to its second step; return what is known of it. Raises UsageError where it fails before."""
    listening = _Listening()
    trial = TrialDrive(RehearseRequest(case, session.procedure), None, listening).run(session.launcher, 0)
    if trial.outcome.status != Status.OK or listening.measured is None:
        lines = [f"{shlex.join(words_of(case.workload.model, case.configuration))}: {trial.outcome.message}"]
        raise UsageError("\n".join([*lines, *(trial.outcome.traceback or "").splitlines()]))
    return listening.measured.facts


def workload_of(request: ProgramRequest, task: Task = Task.TRAIN) -> Workload:
    """Return the command as what is computed."""
    fixed = {} if request.step == "auto" else {"step": request.step}
    return Workload(task, f"{SCHEME}:{shlex.join(request.words)}", "own", request.item, None, fixed)


def configurations(request: ProgramRequest) -> Iterator[Mapping[str, Scalar]]:
    """Yield every combination of the values of its axes."""
    names = list(request.axes)
    return (dict(zip(names, point, strict=True)) for point in itertools.product(*request.axes.values()))


def name_of(request: ProgramRequest) -> str:
    """Return what its run is called: as was said, or like the script."""
    return request.name or Path(request.words[-1 if len(request.words) == 1 else 1]).name


class _Listening(Silent):
    """A Watcher that keeps what a program measured of itself."""

    measured: Measured | None = None

    def heard(self, event: Event) -> None:
        """Keep it."""
        if isinstance(event, Measured):
            self.measured = event


def placed(facts: Facts, asked: Placement, machine: Machine) -> Placement:
    """Return the Placement on which the program computes, whatever was asked for: it decides that itself."""
    kind = str(facts.device)
    if kind == "cuda" and any(device.kind == "rocm" for device in machine.devices):
        kind = "rocm"
    return asked if kind == asked.device else Placement(kind)

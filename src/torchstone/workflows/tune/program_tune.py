"""Tuning somebody's own program: `torchstone tune -- python train.py --batch_size {batch_size}`.

Every `{name}` is an axis. A probe is a fresh process of the command with the values of its point; search, final round
and answer are those of every tune. Loader and device are not probed apart: a program is measured as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.machine import Machine
from torchstone.execution import machine_facts, plan
from torchstone.execution.controller.active_run import record_run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.session import Session, for_objective
from torchstone.workflows.run.planned_run import (
    PLACEHOLDER,
    ProgramRequest,
    Results,
    begin_run,
    check,
    configurations,
    name_of,
    placement_of,
    published,
    tried,
    workload_of,
)
from torchstone.workflows.tune.space import TuneSpace, usual_values
from torchstone.workflows.tune.specification import TuneRequest, checked_objective, constraints_of
from torchstone.workflows.tune.tune import ROUNDS, TuneWatcher, going_on


class ProgramTune:
    """One `torchstone tune -- COMMAND`. What is wrong with its words is found before anything is started."""

    def __init__(
        self, request: TuneRequest, program: ProgramRequest, watcher: TuneWatcher, busy: WhenBusy = SHARE
    ) -> None:
        checked_objective(request)
        places = {name for word in program.words for name in PLACEHOLDER.findall(word)}
        usual = usual_values(machine_facts.host().logical_cores)
        axes = {**{name: values for name, values in usual.items() if name in places}, **program.axes}
        self._program = msgspec.structs.replace(program, axes=axes)
        check(self._program)
        if all(len(values) < 2 for values in axes.values()):
            name = next(iter([*axes, *places]), "batch_size")
            raise UsageError(f"nothing varies: write {{{name}}} in the command, and --axis {name}=V1,V2 before the --")
        if other := [name for name in request.present if name not in axes]:
            raise UsageError(f"--present {other[0]}: the command has no {{{other[0]}}}; it has {', '.join(axes)}")
        self._request, self._watcher, self._busy = request, watcher, busy

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Tune into `folder`."""
        program = self._program
        with Session(program.procedure, (), self._watcher) as session:
            machine, found = session.inspect()
            placement = plan.place(program.device, found, machine)
            first = {**next(configurations(program)), **self._request.present}
            with begin_run(session, machine, [placement], name_of(program), command, self._busy) as (draft, _):
                facts = tried(session, Case(workload_of(program), first, placement))
                base = Case(workload_of(program, Task(str(facts.task))), first, placement_of(facts, placement, machine))
                session.procedure = for_objective(session.procedure, self._request.objective, base.placement)
                spec = self._spec(base, machine, session.procedure.trials or ROUNDS)
                TuneSpace(spec)
                head = msgspec.structs.replace(draft, tune=spec)
                run = record_run(session, head, folder, going_on(self._watcher))
        return published(run, folder)

    def _spec(self, base: Case, machine: Machine, trials: int) -> TuneSpec:
        request, axes = self._request, self._program.axes
        device = machine.device(base.placement.device, base.placement.index)
        varying = {name: values for name, values in axes.items() if len(values) > 1}
        now = request.present
        varying = {
            name: values if name not in now or now[name] in values else (*values, now[name])
            for name, values in varying.items()
        }
        return TuneSpec(
            objective=request.objective,
            searcher=request.searcher,
            base=base,
            axes=varying,
            present={name: base.configuration[name] for name in varying} if now else None,
            constraints=constraints_of(request, device.memory_bytes if device is not None else None),
            most_cost_s=request.most_cost_s,
            most_probes=request.most_probes,
            final_trials=trials,
        )

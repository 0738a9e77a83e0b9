"""A training measured in its own process by the hooks that `torchstone run -- COMMAND` puts into a program."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.api.recording import as_html, default_folder, document_with_pictures, keep, trial_of
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Slot
from torchstone.core.schema.trial import Trial
from torchstone.execution import machine_facts, program
from torchstone.execution.inspection import inspect
from torchstone.execution.program.steps import Marks, Step, steps_of
from torchstone.execution.program.trial import measured
from torchstone.workflows.run.planned_run import placement_of

_HOOKS = Path(str(program.__file__)).parent / "hooks" / "_torchstone_hooks.py"
_ROUNDS, _FEWEST = 10, 6  # of steps; each round is a trial, of so many steps at least
_WARMUP, _WARMUP_S = 3, 0.5


class HookedTraining:
    """Measures a training between `start` and `stop`, of which `summary` and a record in the output folder remain.

    A step is what it is for `torchstone run -- COMMAND` (docs/programs.md). After the warm-up `budget_s` seconds are
    measured, in rounds of consecutive steps, of which each is a trial: the interval is over rounds of this one process.
    What the training computes stays as it is, and it is never ended by this: a fault here is a warning.
    """

    def __init__(
        self,
        name: str = "train",
        *,
        budget_s: float = 60.0,
        warmup: int = _WARMUP,
        item: str = "sample",
        output_dir: str | Path | None = None,
    ) -> None:
        """Hook nothing yet. `warmup`: steps to leave out at least. `item`: what one row of a batch is."""
        if budget_s <= 0.0 or warmup < 1:
            raise UsageError(f"budget_s={budget_s}, warmup={warmup}: more than 0 s, 1 step or more")
        self.summary: RunSummary | None = None
        self._name, self._item = name, item
        self._warmup, self._plan = warmup, {"budget_s": budget_s, "warmup": warmup, "warmup_s": _WARMUP_S}
        self._folder = Path(output_dir) if output_dir is not None else default_folder()
        self._hooks: Any = None
        self._marks: Marks | None = None

    def __str__(self) -> str:
        """Return the summary, as lines to print."""
        return str(self.summary) if self.summary is not None else f"{self._name}: not measured"

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        run = self.summary
        return as_html(lambda: document_with_pictures(run)) if run is not None else None

    def start(self, model: Any) -> None:
        """Hook the model and its steps. A program that `torchstone run` measures has its hooks already."""
        if "TORCHSTONE_PROGRAM" in os.environ:
            return
        if self._hooks is not None:  # of a training that raised
            self._hooks.unwatch()
        self._marks = None
        import torch

        spec = importlib.util.spec_from_file_location("_torchstone_hooks_here", _HOOKS)
        assert spec is not None
        assert spec.loader is not None
        self._hooks = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._hooks)
        self._hooks.watch(torch, self._plan, self._hear, model)

    def _hear(self, word: str, **about: Any) -> None:
        if word == "marks":
            self._marks = msgspec.convert(about, Marks)

    def stop(self) -> None:
        """Take the hooks out, and write the record where there is enough to measure."""
        if self._hooks is None:
            return
        self._hooks.unwatch()
        self._hooks = None
        good = [step for step in steps_of(self._marks) if step.steady] if self._marks is not None else []
        if self._marks is None or len(good) < _FEWEST:
            if not _is_another_rank():
                warnings.warn(f"torchstone: {len(good)} steps after warm-up are too few to measure", stacklevel=2)
            return
        try:
            self._keep(self._marks, good)
        except (TorchstoneError, OSError) as fault:  # the training goes on
            warnings.warn(f"torchstone: the record was not written: {fault}", stacklevel=2)

    def _keep(self, marks: Marks, good: list[Step]) -> None:
        sizes = [step.items for step in good if step.items is not None]
        size = {"batch_size": max(set(sizes), key=sizes.count)} if len(sizes) == len(good) else {}
        found = inspect()
        machine = Machine(machine_facts.host(), found.devices, found.software, {})
        placement = placement_of(Facts(device=marks.device), Placement("cpu"), machine)
        case = Case(Workload(Task.TRAIN, f"loop:{self._name}", "own", self._item), size, placement)
        rounds = min(_ROUNDS, len(good) // _FEWEST)
        procedure = Procedure(
            trials=rounds,
            warmup=self._warmup,
            isolation="inline",
            heap="default",
            settings="torch",
            telemetry_period_s=0.0,
        )

        def trial(slot: Slot, order: int) -> Trial:
            part = good[slot.number * len(good) // rounds : (slot.number + 1) * len(good) // rounds]
            seen = measured(marks, part, part)
            parts: dict[str, object] = {"facts": seen.facts, "measurements": seen.measurements}
            return trial_of(case, slot.number, order, part[0].begin_s, part[-1].end_s, parts)

        plan = Plan((case,), tuple(Slot(0, number) for number in range(rounds)))
        self.summary = keep(plan, procedure, self._name, self._folder, trial)


def _is_another_rank() -> bool:
    """Say whether rank 0 tells of this training."""
    torch: Any = sys.modules["torch"]
    dist = torch.distributed
    return bool(dist.is_available() and dist.is_initialized() and dist.get_rank() != 0)

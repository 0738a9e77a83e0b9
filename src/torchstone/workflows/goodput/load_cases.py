"""What a search for goodput asks for, and the Cases of its loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from torchstone.config.run_file import as_loads
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.load import SERVER
from torchstone.core.schema.machine import Machine
from torchstone.execution import plan
from torchstone.execution.plan import Sketch

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest

WITHIN_S = 120.0  # where no time was given
_RATE, _SCENARIO = "target_qps", "scenario"


class GoodputRequest(msgspec.Struct, frozen=True):
    """`settings`: those of the load (bound, largest batch, longest wait), over the file's. `rounds`: None: by time."""

    run: RunRequest
    settings: Mapping[str, Scalar]
    rounds: int | None = None

    def sketch(self) -> Sketch:
        """Return the one workload and setting to load. Raises UsageError where there are several, or none."""
        loads = as_loads(self.run.workloads)
        if len(loads) != 1:
            known = ", ".join(f"{w.task} {w.model}" for w in self.run.workloads)
            raise UsageError(f"goodput takes one workload of inference, this has {len(loads)} ({known}): use --model")
        (asked,) = loads
        axes: dict[str, Sequence[Scalar]] = {
            axis: values for axis, values in asked.axes.items() if axis != "batch_size"
        }
        axes.update({axis: (value,) for axis, value in self.settings.items()})
        axes.update({_SCENARIO: (SERVER,), _RATE: (0.0,)})
        sketched = plan.sketch(msgspec.structs.replace(asked, axes=axes).excluding(self.run.exclude))
        if len(sketched.configurations) != 1:
            several = ", ".join(axis for axis, values in axes.items() if len(values) > 1)
            raise UsageError(f"goodput takes one setting at a time: give one value of {several}")
        return sketched


class Loads:
    """The Cases of one workload and setting: at any rate, and in a closed loop."""

    def __init__(self, sketched: Sketch, placement: Placement, machine: Machine) -> None:
        self._base = plan.first_case(sketched, placement, machine)
        self.bound_s = float(self._base.configuration["latency_bound_s"] or 0.0)
        self.max_wait_s = float(self._base.configuration["max_wait_s"] or 0.0)

    def at(self, rate: float) -> Case:
        """Return the Case of queries that arrive at random, so many a second."""
        return self._with({_RATE: rate})

    def of(self, scenario: str, **settings: Scalar) -> Case:
        """Return the Case of another scenario, which has no rate."""
        return self._with({_SCENARIO: scenario, _RATE: 0.0, **settings})

    def _with(self, changes: Mapping[str, Scalar]) -> Case:
        return msgspec.structs.replace(self._base, configuration={**self._base.configuration, **changes})

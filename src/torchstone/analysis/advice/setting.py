"""What is known of a Case beside its figures when something is advised: what it has already is not advised."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts

# What people usually aim at: rules of thumb, told beside what was measured; no choice is made by them.
DATA_S = 0.030  # of waiting for data in a step: more is much
UTILIZATION = (0.70, 0.95)  # of the time a device is in use
MEMORY = (0.60, 0.80)  # of a device's memory at the peak


class Setting(msgspec.Struct, frozen=True):
    """Of one Case; None is what is not known.

    `cores`: that its processes may use; `utilization`: of the device, 0 to 1; `native`: the number formats that its
    units for products take as they are; `facts`: of a trial; `loader_computes`: the loader is at work rather than
    waiting for its source, `loader_reads`: which is files.
    """

    configuration: Mapping[str, Scalar]
    cores: int | None = None
    accelerator: bool | None = None
    utilization: float | None = None
    native: tuple[str, ...] | None = None
    facts: Facts = msgspec.field(default_factory=Facts)
    trains: bool = False
    loader_computes: bool | None = None
    loader_reads: bool | None = None

    def fixes(self, axis: str) -> bool:
        """Whether the user's own batches are used as they come, so that an axis can have no other value."""
        return axis in self.facts.own_fixed

    @property
    def idles(self) -> bool:
        """Whether the device is in use less than is usual; not where its use is not known."""
        return self.utilization is not None and self.utilization < UTILIZATION[0]

    @property
    def idle(self) -> tuple[Statement, ...]:
        """That it is, with its use; nothing where it is not."""
        return (Statement("idle", {"share": self.utilization, "usual": UTILIZATION[0]}),) if self.idles else ()

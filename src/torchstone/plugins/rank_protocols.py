"""What the engine `train` prepares beside, where several processes train together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.collective import Collective


class Replicas(Protocol):
    """The replicas or shards of a model over ranks, as one of them has it. `call`: what is called in its place."""

    call: Any

    def synchronize(self, *, last: bool) -> None:
        """Say whether the next backward pass exchanges gradients: that of the `last` batch before an update."""

    def silent(self) -> AbstractContextManager[None]:
        """Have the steps within communicate nothing, and compute the same."""

    def recorded(self) -> AbstractContextManager[Sequence[Collective]]:
        """Return the collectives of the step within; they are there when it is left."""

    def facts(self) -> Mapping[str, Scalar]:
        """Return what was settled without being asked for; known once a step is done."""


@runtime_checkable
class Distributed(Protocol):
    """What a Prepared is beside, if its steps are shared among ranks; `replicas` is None for one process."""

    replicas: Replicas | None

"""What a user's own code gave the step to work on, as its rehearsal found it: what follows for axes nobody named."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core.messages import why_fixed
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.case import Case, Task


class OwnData(msgspec.Struct, frozen=True):
    """Data that a user's code returned. The default: it returned none, but a tokenizer.

    `settings`: what its own loader has, or how many items its example batch has. `fixed`: axes whose value cannot be
    another, for the reason `why`.
    """

    is_data: bool = False
    settings: Mapping[str, Scalar] = {}
    fixed: Mapping[str, Scalar] = {}
    why: Statement | None = None

    @property
    def why_text(self) -> str:
        """Return `why` in English."""
        return "" if self.why is None else why_fixed(self.why.id, self.why.values)

    def fill(self, task: Task, configuration: Mapping[str, Scalar], left_open: tuple[str, ...]) -> dict[str, Scalar]:
        """Return a Configuration with what follows from the data for the axes that were left open.

        Real data come through the loader, with the settings that it has. Resident batches need no workers.
        An example batch is measured as it is.
        """
        filled = dict(configuration)
        if self.is_data and "feed" in left_open:
            filled["feed"] = "loader"
        feeds = task == Task.LOAD or filled.get("feed") == "loader"
        for axis in left_open:
            if axis in self.settings and axis in filled and (feeds or axis not in LOADER_AXES):
                filled[axis] = self.settings[axis]
        return filled

    def filled(self, case: Case, left_open: tuple[str, ...]) -> Case:
        """Return a Case with what follows from the data for the axes that were left open."""
        configuration = self.fill(case.workload.task, case.configuration, left_open)
        return msgspec.structs.replace(case, configuration=configuration)

    def refuses(self, configuration: Mapping[str, Scalar]) -> str | None:
        """Return the first axis whose value a Configuration has otherwise than it is fixed; None: there is none."""
        resident = configuration.get("feed") == "resident"
        return next(
            (
                axis
                for axis, value in self.fixed.items()
                if axis in configuration and configuration[axis] != value and not (resident and axis in LOADER_AXES)
            ),
            None,
        )

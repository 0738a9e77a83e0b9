"""One workload as it is asked for: task, model, data and the values of the axes that vary, in the user's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.condition import Condition


class WorkloadRequest(msgspec.Struct, frozen=True):
    """One workload in the user's words. `data` None leaves the choice to the model: synthetic, or its own example.

    `options` are the model's, `data_options` the data's. `axes`: their values, parsed (`axis_values`). `exclude`:
    Configurations that meet one of these are left out.

    `fed`: real data come through the loader whatever the task, as they do for training. Otherwise a question about
    inference (how soon does the model answer?) is one about the model: its batches are resident, and its table says so.
    """

    task: str
    model: str
    data: str | None = None
    options: Mapping[str, Scalar] = {}
    axes: Mapping[str, Sequence[Scalar]] = {}
    data_options: Mapping[str, Scalar] = {}
    exclude: Sequence[Condition] = ()
    fed: bool = False

    def excluding(self, exclude: Sequence[Condition]) -> WorkloadRequest:
        """Return it without the Configurations that meet one of these conditions."""
        return msgspec.structs.replace(self, exclude=exclude)

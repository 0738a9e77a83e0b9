"""How a report of several runs is put together: it carries this, so that `torchstone verify` can do it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.run import Run
from torchstone.report.document import Document

LAYOUT = "report.json"  # the file of it in a report


class Kind(StrEnum):
    """What a report does with its runs."""

    COMBINED = "combined"  # one after the other
    COMPARISON = "comparison"  # each side with the first


class Side(msgspec.Struct, frozen=True):
    """One of the compared, or one run of a combined report. `runs`: their ids, in order."""

    label: str
    runs: tuple[str, ...]


class Layout(msgspec.Struct, frozen=True, tag="report", tag_field="record"):
    """How a report of several runs is put together."""

    schema: int
    kind: Kind
    sides: tuple[Side, ...]


# Makes the Document of a layout from its runs, their summaries and (of a combined report) Documents, by their ids.
DocumentAgain = Callable[[Layout, Mapping[str, Run], Mapping[str, RunSummary], Mapping[str, Document]], Document]

"""How a report of several runs is put together: it carries this, so that `torchstone verify` can do it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from torchstone.analysis.compare.compare import ComparisonRequest
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import TrainingMetrics
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
    """How a report of several runs is put together. Of a comparison how it judges, and of which axis of one run."""

    schema: int
    kind: Kind
    sides: tuple[Side, ...]
    asked: ComparisonRequest = ComparisonRequest()
    over: str | None = None


class Known(msgspec.Struct, frozen=True):
    """What a report of several runs carries, by the ids of the runs.

    `documents`: of each run of a combined report; `trainings`: the epochs of those that are trainings.
    """

    runs: Mapping[str, Run]
    summaries: Mapping[str, RunSummary]
    documents: Mapping[str, Document]
    trainings: Mapping[str, TrainingMetrics]


DocumentAgain = Callable[[Layout, Known], Document]

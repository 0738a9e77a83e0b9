"""Document of a run: head, trials, findings and end in one self-contained piece of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core.schema.answer import Answer
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.codec import encode, with_texts
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.performance_summary import PerformanceSummary, performance_summaries
from torchstone.core.schema.run import SCHEMA, End, Head, Run
from torchstone.core.schema.trial import Trial


class RunDocument(msgspec.Struct, frozen=True, tag="document", tag_field="record"):
    """A whole run. `rows` and `performance_summary` are derived, for other programs: written, never read again."""

    schema: int
    head: Head
    trials: tuple[Trial, ...]
    findings: tuple[Finding, ...]
    end: End | None
    rows: tuple[Mapping[str, Scalar], ...] = ()
    answer: Answer | None = None
    performance_summary: tuple[PerformanceSummary, ...] = ()


def document_bytes(
    run: Run, rows: Sequence[Mapping[str, Scalar]] = (), summary: Sequence[PerformanceSummary] | None = None
) -> bytes:
    """Return the run as a JSON document that can be imported again, non-finite values included.

    `summary`: of its trainings; None takes it from the rows.
    """
    if summary is None:
        diverged = {finding.subject for finding in run.findings if finding.check == "loss_diverged"}
        summary = performance_summaries(rows, diverged)
    whole = RunDocument(SCHEMA, run.head, run.trials, run.findings, run.end, tuple(rows), run.answer, tuple(summary))
    return encode(with_texts(whole)) + b"\n"

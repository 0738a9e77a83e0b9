"""Document of a run: head, trials, findings and end in one self-contained piece of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.terms.answer import Answer
from torchstone.terms.axis import Scalar
from torchstone.terms.codec import encode
from torchstone.terms.comparison import Comparison
from torchstone.terms.estimate import Finding
from torchstone.terms.run import SCHEMA, End, Head, Run
from torchstone.terms.trial import Trial


class Document(msgspec.Struct, frozen=True, tag="document", tag_field="record"):
    """A whole run. `rows` are derived figures for other programs: written, never believed on reading."""

    schema: int
    head: Head
    trials: tuple[Trial, ...]
    findings: tuple[Finding, ...]
    end: End | None
    rows: tuple[Mapping[str, Scalar], ...] = ()
    answer: Answer | None = None
    comparison: Comparison | None = None


def document_bytes(run: Run, rows: Sequence[Mapping[str, Scalar]] = ()) -> bytes:
    """Return the run as a JSON document that can be imported again, non-finite values included."""
    whole = Document(
        SCHEMA, run.head, run.trials, run.findings, run.end, tuple(rows), run.answer, run.comparison
    )  # fmt: skip
    return encode(whole) + b"\n"

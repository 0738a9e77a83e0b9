"""A Document as JSON: for programs that lay it out themselves."""

from __future__ import annotations

import msgspec

from torchstone.report.document import Document


def as_json(document: Document) -> bytes:
    """Return one JSON document: every part has its `kind`."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"

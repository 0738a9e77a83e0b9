"""A Document as JSON: for programs that lay it out themselves."""

from __future__ import annotations

import msgspec

from torchstone.report.document import Document


class Json:
    """One JSON document: every part has its `kind`."""

    describes = "JSON for programs: the parts of the report, each with its kind"
    suffix = ".json"

    def render(self, document: Document) -> bytes:
        """Return the file."""
        return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


RENDERER = Json()

"""A Document as JSON: for programs that lay it out themselves."""

from __future__ import annotations

import msgspec

from torchstone.report.document import Document, Renderer


class Json(Renderer):
    """One JSON document: every part has its `kind`. Attachments are left out."""

    describes = "JSON for programs: the parts of the report, each with its kind"
    suffix = ".json"

    def render(self, document: Document) -> bytes:
        """Return the file."""
        said = {"title": document.title, "parts": document.parts}
        return msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n"


RENDERER = Json()

"""Rows as JSON lines, one object a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Exporter


class JsonLines(Exporter):
    """Writes a row a line. JSON has no NaN: it is written as protocol buffers do, "NaN", "Infinity", "-Infinity"."""

    describes = "JSON lines, one object per case"
    suffix = ".jsonl"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        with path.open("wb") as file:
            for row in rows:
                file.write(msgspec.json.encode({key: _json_value(value) for key, value in row.items()}) + b"\n")


def _json_value(value: Scalar) -> Scalar:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


PLUGIN: Exporter = JsonLines()

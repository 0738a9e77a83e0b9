"""JSON lines of DistilBERT benchmark suites: cpu_results, batch_comparison, mixed_precision_results.jsonl."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _distilbert
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._reading import MOST_ROWS, digest, parsed, part, text_of
from torchstone.plugins.protocols import Importer


class SeedJsonl:
    """A line is a trial; lines of equal settings are repetitions."""

    describes = "DistilBERT benchmark suites: cpu_results.jsonl, batch_comparison.jsonl, mixed_precision_results.jsonl"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".jsonl":
            return False
        try:
            first = json.loads(beginning.split(b"\n", 1)[0])
        except (ValueError, RecursionError):  # no JSON, or a line longer than the beginning
            return False
        return isinstance(first, dict) and "record" not in first and _distilbert.is_one(first)

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found: list[Mapping[str, Any]] = []
        for number, line in enumerate(io.StringIO(text), 1):  # a list of all lines may take 20 times as much
            if not line.strip():
                continue
            if len(found) == MOST_ROWS:
                raise UsageError(f"{path}: more than {MOST_ROWS} lines")
            one = part(parsed(line, f"{path}:{number}"))
            if not _distilbert.is_one(one):
                raise UsageError(f"{path}:{number}: no batch_size, or neither a latency nor a throughput")
            found.append(one)
        if not found:
            raise UsageError(f"{path}: no lines")
        making = draft.Draft(
            "DistilBERT benchmark suite", path, digest(text), _distilbert.machine_of(found),
            next((one.get("timestamp") for one in found), None),
        )  # fmt: skip
        for one in found:
            _distilbert.add(making, one)
        return [making.run()]


PLUGIN: Importer = SeedJsonl()

"""JSON of two benchmarking scripts: benchmark_<gpu>_<time>.json of one run, and a tree family → model → hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _gpu_report, _training_tree
from torchstone.plugins.importers._reading import parsed, part, text_of
from torchstone.plugins.protocols import Importer

_REPORT = (b'"experiment_name"', b'"gpu_info"', b'"total_runtime_minutes"', b'"predictions_per_second"')
_TREE = (b'"system_info"', b'"benchmarks"')
_MARKS = (b'"training_results"', b'"performance_summary"', b'"model_load_time"')


class SeedJson:
    """The forms are in docs/checks.md."""

    describes = "GPU benchmark reports (benchmark_<gpu>_<time>.json) and training benchmark trees, as JSON"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".json" or b'"record"' in beginning[:64] or not beginning.lstrip().startswith(b"{"):
            return False
        tree = all(mark in beginning for mark in _TREE) and any(mark in beginning for mark in _MARKS)
        return tree or sum(mark in beginning for mark in _REPORT) >= 2

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = part(parsed(text, str(path)))
        runs = list(_runs(found, path, text))
        if not runs:
            raise UsageError(f"{path}: neither a report (training, inference) nor a tree of benchmarks")
        return runs


def _runs(found: Mapping[str, Any], path: Path, text: str) -> Iterator[Run]:
    yield from (_training_tree.runs if part(found, "benchmarks") else _gpu_report.runs)(found, path, text)


PLUGIN: Importer = SeedJson()

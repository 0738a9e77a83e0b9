"""What an optimal-configuration finder prints: BENCHMARK SUMMARY, its table, and OPTIMAL CONFIGURATION below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.claim import PREFIX
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers import _sweep_table
from torchstone.plugins.importers._reading import digest, text_of
from torchstone.plugins.protocols import Importer

_TITLE, _BELOW = "BENCHMARK SUMMARY", "OPTIMAL CONFIGURATION"
_CHOICES = {"Throughput": "best_throughput", "Efficiency": "best_efficiency", "Recommended": "recommended"}
_BATCH = re.compile(r"Batch Size:\s*(\d+)")
_NUMBERS = ("I/O(ms)", "Fwd(ms)", "Bwd(ms)", "Opt(ms)", "Total(ms)", "Samples/s", "GPU%", "Mem(GB)")


class SeedText:
    """Rows are told by their first three words; a row without figures has its status alone."""

    describes = "the printed summary of an optimal-configuration sweep (a .txt or .log of it)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        return _TITLE.encode() in beginning and b"Fwd(ms)" in beginning and path.suffix in (".txt", ".log", ".out")

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        table, _, below = text.partition(_TITLE)[2].partition(_BELOW)
        best = _chosen(below)
        machine = draft.a_machine(devices=[draft.a_device("cuda", 0, None)])
        making = draft.Draft("optimal-configuration sweep", path, digest(text), machine)
        rows = list(_rows(table))
        if not rows:
            raise UsageError(f"{path}: no row of a benchmark below {_TITLE}")
        for row in rows:
            _sweep_table.add(making, row, best.get(_sweep_table.batch_of(row) or 0))
        return [making.run()]


def _rows(table: str) -> Iterator[Mapping[str, str]]:
    header: list[str] = []
    for line in table.splitlines():
        cells = line.split()
        if "Fwd(ms)" in cells:
            header = cells
        elif header and len(cells) >= 4 and cells[0].isdigit():
            columns = [name for name in _NUMBERS if name in header]
            figures, status = cells[3:-1], cells[-1]
            if len(figures) in (0, len(columns)):
                first = dict(zip(header[:3], cells[:3], strict=True))
                yield {**first, **dict(zip(columns, figures, strict=False)), "Status": status}


def _chosen(below: str) -> dict[int, dict[str, Scalar]]:
    """Return what each batch size is recommended for."""
    found: dict[int, dict[str, Scalar]] = {}
    what = None
    for line in below.splitlines():
        if line.rstrip().endswith(":"):
            what = next((name for mark, name in _CHOICES.items() if mark in line), None)
        if what is not None and (size := _BATCH.search(line)) is not None:
            found.setdefault(int(size[1]), {})[f"{PREFIX}{what}"] = True
            what = None
    return found


PLUGIN: Importer = SeedText()

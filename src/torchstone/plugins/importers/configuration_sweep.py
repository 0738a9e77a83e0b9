"""A sweep for the best training configuration, as printed (BENCHMARK SUMMARY, OPTIMAL CONFIGURATION) or as its CSV.

A row has batch, workers, AMP, the phases of a step in ms, samples/s, GPU %, memory and status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, header_of, table_of, text_of, whole
from torchstone.plugins.protocols import Importer

_COLUMNS = frozenset({"Batch", "Workers", "AMP", "I/O(ms)", "Fwd(ms)", "Bwd(ms)", "Total(ms)", "Samples/s"})
_ALIASES: draft.Aliases = {
    "phase_data_s": (1e-3, "I/O(ms)"),
    "phase_forward_s": (1e-3, "Fwd(ms)"),
    "phase_backward_s": (1e-3, "Bwd(ms)"),
    "phase_optimizer_s": (1e-3, "Opt(ms)"),
    "anatomy_step_s": (1e-3, "Total(ms)"),
    "throughput": (1.0, "Samples/s"),
    "device_utilization": (0.01, "GPU%"),
    "device_memory_used_bytes": (1e9, "Mem(GB)"),
}
_NOT_OK = ("oom", "out of memory", "fail", "error", "❌")
_TITLE, _BELOW = "BENCHMARK SUMMARY", "OPTIMAL CONFIGURATION"
_CHOICES = {"Throughput": "throughput", "Efficiency": "efficiency", "Recommended": "recommended"}
_BATCH = re.compile(r"Batch Size:\s*(\d+)")
_NUMBERS = tuple(name for _, *names in _ALIASES.values() for name in names)


class ConfigurationSweep(Importer):
    """A row is a trial. In print a row is told by its first three words; one without figures has its status alone."""

    describes = "sweeps for the best training configuration: the printed summary (.txt, .log) or its table (.csv)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix == ".csv":
            return header_of(beginning) >= _COLUMNS
        return _TITLE.encode() in beginning and b"Fwd(ms)" in beginning and path.suffix in (".txt", ".log", ".out")

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows, best = _of_table(text, path) if path.suffix == ".csv" else _of_print(text, path)
        machine = draft.a_machine(devices=[draft.a_device("cuda", 0, None)])
        making = draft.Draft("optimal-configuration sweep", path, digest(text), machine)
        for row in rows:
            _add(making, row, best.get(_batch_of(row) or 0, ()))
        return [making.run()]


_Best = dict[int, tuple[str, ...]]


def _of_table(text: str, path: Path) -> tuple[Sequence[Mapping[str, str]], _Best]:
    rows = table_of(path, text, _COLUMNS)
    for line, row in enumerate(rows, 2):
        if _batch_of(row) is None:
            raise UsageError(f"{path}:{line}: the batch is a whole number")
    return rows, {}


def _of_print(text: str, path: Path) -> tuple[Sequence[Mapping[str, str]], _Best]:
    table, _, below = text.partition(_TITLE)[2].partition(_BELOW)
    rows = list(_printed_rows(table))
    if not rows:
        raise UsageError(f"{path}: no row of a benchmark below {_TITLE}")
    return rows, _chosen(below)


def _printed_rows(table: str) -> Iterator[Mapping[str, str]]:
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


def _chosen(below: str) -> _Best:
    """Return what each batch size is recommended for."""
    found: _Best = {}
    what = None
    for line in below.splitlines():
        if line.rstrip().endswith(":"):
            what = next((name for mark, name in _CHOICES.items() if mark in line), None)
        if what is not None and (size := _BATCH.search(line)) is not None:
            found[int(size[1])] = (*found.get(int(size[1]), ()), what)
            what = None
    return found


def _add(making: draft.Draft, row: Mapping[str, str], best: tuple[str, ...]) -> None:
    case = _case(row)
    status = row.get("Status", "").lower()
    if any(mark in status for mark in _NOT_OK):
        memory = "oom" in status or "memory" in status
        outcome = Outcome(Status.OUT_OF_MEMORY if memory else Status.CRASHED, row.get("Status"))
        making.add(case, {}, outcome=outcome)
        return
    claimed = draft.figures_of(row, _ALIASES)
    making.add(case, claimed, facts=Facts(labelled_best=best))


def _batch_of(row: Mapping[str, str]) -> int | None:
    return whole(row.get("Batch"))


def _case(row: Mapping[str, str]) -> Case:
    amp = row.get("AMP", "").strip().lower()
    settings: dict[str, Scalar] = {
        "batch_size": _batch_of(row),
        "num_workers": whole(row.get("Workers")),
        "precision": "fp16" if amp in ("yes", "true", "1", "on") else "fp32" if amp else None,
    }
    return draft.a_case(Task.TRAIN, "external:unknown", settings, Placement("cuda"))


PLUGIN: Importer = ConfigurationSweep()

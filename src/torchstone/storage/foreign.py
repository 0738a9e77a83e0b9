"""Files of other tools: which importer knows one, and its runs with what the checks see in them."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.run import Run
from torchstone.plugins import registry
from torchstone.plugins.checking import look
from torchstone.plugins.protocols import Importer
from torchstone.storage.record_reader import check_run

_BEGINNING = 64 * 1024
_FAULT_CHARACTERS = 200  # characters of a fault
_OURS = (b'{"record":"head"', b'{"record":"document"')
_FORMATS = (
    ".json",
    ".jsonl",
    ".csv",
    ".txt",
    ".log",
    ".out",
    ".sql",
)  # a model's weights need not be opened to be told apart


def recognised(path: Path) -> str | None:
    """Return the name of the importer that knows a file; None if it is ours, of no importer, or cannot be read."""
    try:
        if path.suffix not in _FORMATS or not path.is_file():
            return None
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING).removeprefix(codecs.BOM_UTF8)
    except (OSError, ValueError):  # whoever reads it will say so; ValueError: a NUL in its path
        return None
    if beginning.startswith(_OURS):
        return None
    for name, importer in registry.usable("importers"):
        try:
            if importer.recognises(path, beginning):
                return name
        except Exception:  # noqa: S112  a third party's importer must not cost the others their file
            continue
    return None


def read_foreign(tool: str, path: Path) -> Sequence[Run]:
    """Return the runs in a file of another tool. Raises UsageError naming the place that is wrong."""
    importer: Importer = registry.load("importers", tool)
    try:
        runs = importer.read(path)
        for run in runs:  # what no record may have, none of them brings in
            check_run(run)
        return runs
    except (UsageError, MissingError):
        raise
    except Exception as fault:  # a form that nobody has thought of, or a third party's importer
        said = "".join(c if c.isprintable() else " " for c in str(fault)[:_FAULT_CHARACTERS])  # it may quote the file
        raise UsageError(f"{path}: not as {tool} writes it ({type(fault).__name__}: {said})") from fault


def looked_at(tool: str, path: Path) -> Sequence[Run]:
    """Return the runs in a file of another tool, each with the findings of every check."""
    return [msgspec.structs.replace(run, findings=tuple(look(run))) for run in read_foreign(tool, path)]

"""Runs, stored ones and files of other tools, looked at anew by every check there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.plugins.checking import look
from torchstone.storage import foreign
from torchstone.storage.importing import candidates
from torchstone.storage.query import entry_of, locate, read_run


def checked_runs(folder: Path, word: str, faults: list[str]) -> Iterator[RunSummary]:
    """Yield what a word means, looked at anew: a check may have been written since a run was stored.

    Of a folder, what is wrong with a file is added to `faults`, and the others are looked at. Raises UsageError where
    the word means nothing, or its one file cannot be read.
    """
    among = Path(word).is_dir()
    paths = list(candidates(Path(word), folder)) if among else [locate(folder, word)]
    if not paths:
        raise UsageError(f"{word}: no results in this folder; `torchstone list importers` names what is known")
    for path in paths:
        try:
            found = read_run(path)
        except UsageError as fault:
            if not among:
                raise
            faults.append(str(fault))
            continue
        if foreign.recognised(path) is None:  # what another tool wrote was looked at as it was read
            found = msgspec.structs.replace(found, findings=tuple(look(found)))
        yield summarize(entry_of(found, path))

"""The full screen of `run --live`: the tables of the trials so far, the last messages, and the bar below.

The tables are those that the run ends with, so that a figure means the same on both. They are drawn when a trial has
ended, the bar when the trial at hand says something: never by a thread that would slow what is measured.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.cli._progress import ProgressBar
from torchstone.core.errors import UsageError
from torchstone.core.units import plain
from torchstone.report.document import Text

if TYPE_CHECKING:
    from torchstone.core.schema.run import Head
    from torchstone.core.schema.trial import Trial
    from torchstone.storage.query import Entry

_MESSAGES = 4  # that stay on the screen
_KEPT = 200  # messages that are written again when the screen is gone
_LEAST_LINES = 3  # of the tables, in the lowest terminal


class LiveScreen(ProgressBar):
    """A Watcher (execution/controller/observer.py) that takes the whole terminal. Raises UsageError where none is."""

    def __init__(self, *, verbose: bool = False) -> None:
        if not sys.stderr.isatty():
            raise UsageError("--live draws on a terminal, and stderr is none: leave --live out")
        super().__init__(verbose=verbose)
        self._said: deque[str] = deque(maxlen=_KEPT)
        self._entry: Entry | None = None
        self._tables: tuple[str, ...] = ()
        self._live: Any = None

    def begins(self, head: Head) -> None:
        """Open the screen, with no trial yet."""
        from pathlib import Path

        from torchstone.core.schema.run import Run
        from torchstone.storage.query import entry_of

        self._entry = entry_of(Run(head, (), (), None), Path())
        super().begins(head)

    def finished(self, trial: Trial) -> None:
        """Draw the tables anew, with this trial."""
        from torchstone.storage.query import trial_row

        if self._entry is not None:
            rows = (*self._entry.trials, trial_row(trial))
            self._entry = msgspec.structs.replace(self._entry, trials=rows)
            self._tables = _tables(self._entry, self._bar.console.width)
        super().finished(trial)

    def close(self) -> None:
        """Give the terminal back as it was, and write there what was said meanwhile."""
        if self._live is None:
            return
        self._live.stop()
        self._live = None
        for line in self._said:
            print(line, file=sys.stderr)

    def _open_bar(self, total: int) -> None:
        from rich.live import Live

        self._make_bar(total)
        self._live = Live(
            console=self._bar.console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def _refresh(self) -> None:
        from rich.console import Group
        from rich.text import Text as Lines

        said = list(self._said)[-_MESSAGES:]
        room = max(_LEAST_LINES, self._bar.console.height - len(said) - 3)
        tables = self._tables or ("no trial has ended yet",)
        if (hidden := len(tables) - room + 1) > 1:
            tables = (*tables[: room - 1], f"… {hidden} more lines than this terminal is high")
        above = Lines("\n".join([*tables, "", *said]), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(above, self._bar), refresh=True)

    def _print(self, text: str) -> None:
        self._said.append(plain(text))
        if self._live is not None:
            self._refresh()


def _tables(entry: Entry, width: int) -> tuple[str, ...]:
    """Return the lines of a run's tables."""
    from torchstone.analysis.summary import summarize
    from torchstone.report.document import Document
    from torchstone.report.documents.case_table import case_parts
    from torchstone.report.renderers.terminal import terminal

    run, count = summarize(entry), len(entry.trials)
    title = Text(f"{run.name}: run {run.run_id}, {count} trial{'s' * (count != 1)} so far: figures may still change")
    return tuple(terminal(Document(run.name, (title, *case_parts(run))), width).splitlines())

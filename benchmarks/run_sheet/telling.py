"""What is said of a step on the terminal when it has ended: how, what came of each expectation, its last words."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from run_sheet.expecting import Judged, Verdict
from run_sheet.results import ENDS, State, Taken

_INDENT, _FIGURES = 4, 15  # columns: of what belongs to a step, and of what an expectation says
_QUIET = (Verdict.NOTED, Verdict.NOT_HERE)
_LAST_WORDS = (State.CRASHED, State.NO_ANSWER, State.WRONG_ANSWER)


def ended(step_id: str, taken: Taken, rows: Sequence[Judged], width: int | None = None) -> Iterator[str]:
    """Yield lines of at most `width` columns (default: the terminal's); a single word may be longer.

    Figures that are only noted are in the table. What a process wrote before it crashed is cut at the line's end: the
    whole is in log.txt of the step's folder.
    """
    columns = width or shutil.get_terminal_size().columns
    why = f": {taken.why}" if taken.why else ""
    yield from _wrapped(f"{step_id}  {taken.state} after {taken.took_s or 0.0:.0f} s{why}", _INDENT, columns)
    for row in rows:
        if row.verdict not in _QUIET and row.says != ENDS:
            yield from _wrapped(f"{'':{_INDENT}}{row.verdict:<9}  {row.says}: {row.figure}", _FIGURES, columns)
    if taken.state in _LAST_WORDS:
        yield from (f"{'':{_INDENT}}| {line}"[:columns] for line in taken.said)


def _wrapped(text: str, indent: int, columns: int) -> list[str]:
    # Names and paths are to be copied: none is broken.
    return textwrap.wrap(
        text, columns, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip

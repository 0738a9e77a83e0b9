"""One line that says how a live comparison stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchstone.terms.comparison import Rules

if TYPE_CHECKING:
    from torchstone.ab.contest import Progress


class AbProgress:
    """Draws on stderr, where that is a terminal."""

    def __init__(self, rules: Rules, *, quiet: bool) -> None:
        self._rules = rules
        self._shown = not quiet and sys.stderr.isatty()

    def tell(self, progress: Progress) -> None:
        """Draw the line anew."""
        if not self._shown:
            return
        look = progress.last
        known = f"B takes {change(look.value)} [{change(look.low)}, {change(look.high)}]" if look is not None else "…"
        spent = f"{progress.elapsed_s:.0f} of {self._rules.budget_s:.0f} s"
        print(f"\r\x1b[2K{progress.pairs} pairs, {spent}: {known}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Wipe the line."""
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def change(ratio: float) -> str:
    """Return a ratio of times as a change in percent: "+3.1 %"."""
    return f"{100.0 * (ratio - 1.0):+.1f} %"

"""One line that says how a live comparison stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchstone.analysis.compare.ab_sides import is_narrow
from torchstone.core.plain_text import plain
from torchstone.core.schema.comparison import Rules
from torchstone.core.units import change

if TYPE_CHECKING:
    from torchstone.workflows.ab.experiment import Progress


class AbProgress:
    """Draws on stderr, where that is a terminal, and says there what is said once."""

    def __init__(self, rules: Rules, *, quiet: bool) -> None:
        self._rules = rules
        self._quiet = quiet
        self._shown = not quiet and sys.stderr.isatty()

    def tell(self, progress: Progress) -> None:
        """Draw the line anew."""
        if not self._shown:
            return
        look = progress.last
        known = "…"
        if look is not None and is_narrow(look.low, look.high):
            known = f"B takes {change(look.value)} [{change(look.low)}, {change(look.high)}]"
        spent = f"{progress.elapsed_s:.0f} of {self._rules.budget_s:.0f} s"
        print(f"\r\x1b[2K{progress.pairs} pairs, {spent}: {known}", end="", file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            self.close()
            print(plain(f"torchstone: {line}"), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Wipe the line that is drawn anew."""
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

"""Every point, in the given order."""

from __future__ import annotations

from torchstone.extend import Searcher
from torchstone.searchers._ledger import Search, in_turn
from torchstone.terms.search import Brief


class Grid:
    """Tries all there is: the surest answer, and the dearest."""

    describes = "every point, in the given order"

    def search(self, brief: Brief) -> Search:
        return in_turn(brief, brief.points)


PLUGIN: Searcher = Grid()

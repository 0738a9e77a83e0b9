"""Points drawn at random, none twice.

Better than a grid of the same size where few of the axes matter (Bergstra & Bengio, Random search for hyper-parameter
optimization, JMLR 13, 2012), and the honest mark for any cleverer search.
"""

from __future__ import annotations

from random import Random as Generator

from torchstone.core.schema.search import SearchProblem
from torchstone.plugins.protocols import Searcher
from torchstone.plugins.searchers._ledger import Search, in_turn


class Random(Searcher):
    """Tries points in a seeded random order, until the budget is spent or none is left."""

    describes = "random settings, without repetition"

    def search(self, brief: SearchProblem) -> Search:
        return in_turn(brief, Generator(brief.seed).sample(brief.points, len(brief.points)))


PLUGIN: Searcher = Random()

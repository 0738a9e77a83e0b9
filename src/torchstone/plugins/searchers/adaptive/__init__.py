"""Adaptive search: a Gaussian process around a model of a step, and the probe with the most gain for its cost.

A few short probes of the parts (the loader alone, the device alone) and two of whole steps place the parameters of the
model (gp.py); then probes of whole steps, by the expected improvement less the price of their predicted cost
(acquisition.py). A point whose predicted peak may pass the end of memory is never probed (limits.py). It ends when no
probe promises what it costs, or when the budget is spent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchstone.core.schema.search import Part, Probe, SearchProblem
from torchstone.plugins.protocols import Searcher
from torchstone.plugins.searchers._ledger import Search

if TYPE_CHECKING:
    from torchstone.plugins.searchers.adaptive.acquisition import NextProbe, SearchState


class Adaptive(Searcher):
    """Learns what loader and device can do, and probes where the best may be."""

    describes = "Gaussian-process search with separate models of loader and device"

    def search(self, brief: SearchProblem) -> Search:
        if not brief.points:
            return []
        from torchstone.plugins.searchers.adaptive.acquisition import SearchState, opening

        state = SearchState(brief)
        for choice in opening(state):
            if not state.affords(state.mean_cost_s()) or (state.is_late() and state.measured):
                break
            state.add((yield _probe(state, choice)))
        while (following := state.choose()) is not None:
            state.add((yield _probe(state, following)))
        return state.finalists()


def _probe(state: SearchState, choice: NextProbe) -> Probe:
    point, part = state.space.points[choice.number], tuple(Part)[choice.part]
    if part is Part.LOADER:
        why = f"the loader alone, {point.get('num_workers', 'its')} workers"
    elif part is Part.DEVICE:
        why = f"the device alone, batch {point.get('batch_size', 1)}"
    elif state.count[choice.part, choice.number]:
        why = "end to end: once more, to be sure"
    else:
        why = "end to end: near the predicted best" if state.measured else "end to end: a first look"
    return Probe(point, part, choice.effort, why)


PLUGIN: Searcher = Adaptive()

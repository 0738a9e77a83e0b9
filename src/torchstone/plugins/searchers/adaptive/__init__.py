"""Adaptive search: a Gaussian process around a model of a step, and the probe with the most gain for its cost.

A few short probes of the parts (the loader alone, the device alone) and two of whole steps place the structure of a
step; then probes of whole steps or parts, chosen by the knowledge gradient (Frazier, Powell & Dayanik 2009) for each
second of their predicted cost: expected improvement (Jones, Schonlau & Welch, Efficient global optimization, J. Global
Optim. 13, 1998) made right for noisy readings and points that tell about each other. What has yet to be measured
counts for less by the price of measuring it, as the answer must have been. A point whose predicted peak may pass the
end of memory is never probed. It ends when no probe promises what it costs, or when the budget is spent.
"""

from __future__ import annotations

from torchstone.core.schema.search import Part, Probe, SearchProblem
from torchstone.plugins.protocols import Searcher
from torchstone.plugins.searchers._ledger import Search
from torchstone.plugins.searchers.adaptive.acquisition import Proposal, proposal
from torchstone.plugins.searchers.adaptive.initial_design import opening
from torchstone.plugins.searchers.adaptive.knowledge import Knowledge


class Adaptive(Searcher):
    """Learns what loader and device can do, and probes where the best may be."""

    describes = "Gaussian-process search with separate models of loader and device"

    def search(self, brief: SearchProblem) -> Search:
        if not brief.points:
            return []
        known = Knowledge(brief)
        for probe in opening(known):
            if not known.affords(known.mean_cost_s()) or (known.is_late() and known.measured()):
                break
            known.hear((yield probe))
        while (proposed := proposal(known)) is not None:
            known.hear((yield _probe(known, proposed)))
        return known.finalists()


def _probe(known: Knowledge, proposed: Proposal) -> Probe:
    point, part = known.space.points[proposed.number], proposed.part
    if part is Part.LOADER:
        why = f"the loader alone, {point.get('num_workers', 'its')} workers"
    elif part is Part.DEVICE:
        why = f"the device alone, batch {point.get('batch_size', 1)}"
    elif known.asked[part, proposed.number]:
        why = "end to end: once more, to be sure"
    else:
        why = "end to end: near the predicted best"
    return Probe(point, part, proposed.effort, why)


PLUGIN: Searcher = Adaptive()

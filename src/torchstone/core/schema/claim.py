"""Claims: what another tool says of a trial. They stand beside its raw values, among its facts."""

from __future__ import annotations

from collections.abc import Iterable

from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run import Run

IMPORTED = "imported"  # the isolation of a Procedure that is not known


def total_runtime_s(taken: Iterable[tuple[Facts, float | None]]) -> float | None:
    """Return how long trials took in all (s), of pairs of their facts and durations: of another tool's, as it says.

    None where it does not: of such trials no duration is known.
    """
    trials = list(taken)
    for facts, _ in trials:
        told = facts.total_runtime_s
        if told is not None and told > 0.0:
            return told
    if any(facts.imported_from is not None for facts, _ in trials):
        return None
    return sum(duration_s or 0.0 for _, duration_s in trials)


def is_imported(run: Run) -> bool:
    """Say whether another tool measured this run."""
    return run.head.procedure.isolation == IMPORTED

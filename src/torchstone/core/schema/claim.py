"""Claims: what another tool says of a trial. They stand beside its raw values as facts `claimed_<figure>`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial

PREFIX = "claimed_"
IMPORTED_FROM = "imported_from"  # the fact that names the tool
RATE_UNCLEAR = "rate_unclear"  # the fact that a claimed rate may be that of one process or of several: it is not judged
RUNTIME = "total_runtime_s"  # the fact that tells how long all took that its file reports
IMPORTED = "imported"  # the isolation of a Procedure that is not known


def claims(trial: Trial) -> dict[str, float]:
    """Return the numbers that are claimed of a trial, by figure, in the unit that FIGURES has for it."""
    return {
        name.removeprefix(PREFIX): float(value)
        for name, value in trial.facts.items()
        if name.startswith(PREFIX) and isinstance(value, int | float) and not isinstance(value, bool)
    }


def total_runtime_s(taken: Iterable[tuple[Mapping[str, Scalar], float | None]]) -> float | None:
    """Return how long trials took in all (s), of pairs of their facts and durations: of another tool's, as it says.

    None where it does not: of such trials no duration is known.
    """
    trials = list(taken)
    for facts, _ in trials:
        told = facts.get(RUNTIME)
        if isinstance(told, int | float) and told > 0.0:
            return float(told)
    if any(IMPORTED_FROM in facts for facts, _ in trials):
        return None
    return sum(duration_s or 0.0 for _, duration_s in trials)


def is_imported(run: Run) -> bool:
    """Say whether another tool measured this run."""
    return run.head.procedure.isolation == IMPORTED

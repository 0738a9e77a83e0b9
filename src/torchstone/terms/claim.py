"""Claims: what another tool says of a trial. They stand beside its raw values as facts `claimed_<figure>`."""

from __future__ import annotations

from torchstone.terms.run import Run
from torchstone.terms.trial import Trial

PREFIX = "claimed_"
IMPORTED_FROM = "imported_from"  # the fact that names the tool
RATE_UNCLEAR = "rate_unclear"  # the fact that a claimed rate may be that of one process or of several: it is not judged
IMPORTED = "imported"  # the isolation of a Procedure that is not known


def claims(trial: Trial) -> dict[str, float]:
    """Return the numbers that are claimed of a trial, by figure, in the unit that FIGURES has for it."""
    return {
        name.removeprefix(PREFIX): float(value)
        for name, value in trial.facts.items()
        if name.startswith(PREFIX) and isinstance(value, int | float) and not isinstance(value, bool)
    }


def is_imported(run: Run) -> bool:
    """Say whether another tool measured this run."""
    return run.head.procedure.isolation == IMPORTED

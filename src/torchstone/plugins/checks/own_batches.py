"""A tune did not vary the loader of ready-made batches: they cannot be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Check


class OwnBatches:
    """Who tunes expects workers to be tuned: what could not be is said, with the reason and the way to have it."""

    describes = "a tune whose batches come ready-made: which axes could not vary, and why"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a word where a tune could not vary what its data fix."""
        if run.head.tune is None:
            return
        told = next((t.facts["own_fixed"] for t in run.trials if t.facts.get("own_fixed")), None)
        if told is not None:
            model = run.head.tune.base.workload.model
            yield Finding(
                "own_batches", Severity.INFO, f"not tuned of {model}: {told}",
                "return the Dataset, so that torchstone can build the DataLoader", "run",
            )  # fmt: skip


PLUGIN: Check = OwnBatches()

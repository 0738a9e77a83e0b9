"""Trials of one Case that computed different things: at equal seed and code, their first steps should agree."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.fingerprints import furthest
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.units import significant
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check


class FingerprintMoved:
    """Fires where fingerprints differ from the first trial's."""

    describes = "trials of one case that computed different results"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the two values furthest apart."""
        for case_id, _, trials in sound(run):
            prints = [p for trial in trials if (p := raw(trial, "fingerprint"))]
            pairs = [entries for other in prints[1:] if (entries := furthest(prints[0], other)) is not None]
            far = max(pairs, key=lambda entries: entries.difference, default=None)
            if far is not None and far.differ:
                message = (
                    "trials with the same seed computed different results: "
                    f"{significant(far.one, 6)} in one, {significant(far.other, 6)} in another"
                )
                seed = run.head.procedure.seed
                advice = (
                    f"seed every random generator (the procedure's seed is {seed}); what is left comes from "
                    "nondeterministic operators: torch.use_deterministic_algorithms(True) names them"
                )
                yield Finding("fingerprint_moved", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = FingerprintMoved()

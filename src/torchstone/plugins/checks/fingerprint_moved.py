"""Trials of one Case that computed different things: at equal seed and code, their first steps should agree."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.units import significant
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

TOLERANCE = 1e-3


class FingerprintMoved:
    """Fires where fingerprints differ from the first trial's by more than 1e-3 of their largest entry."""

    describes = "trials of one case that computed different results"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the two values furthest apart."""
        for case_id, _, trials in sound(run):
            prints = [p for trial in trials if (p := raw(trial, "fingerprint"))]
            far = max((_furthest(prints[0], other) for other in prints[1:]), default=None)
            if far is not None and far[0] > TOLERANCE:
                _, one, other = far
                message = (
                    "trials with the same seed computed different results: "
                    f"{significant(one, 6)} in one, {significant(other, 6)} in another"
                )
                seed = run.head.procedure.seed
                advice = (
                    f"seed every random generator (the procedure's seed is {seed}); what is left comes from "
                    "nondeterministic operators: torch.use_deterministic_algorithms(True) names them"
                )
                yield Finding("fingerprint_moved", Severity.WARNING, message, advice, case_id)


def _furthest(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, float, float]:
    """Return (difference relative to the largest entry, entry, entry) where the two are furthest apart."""
    # Moments of an output lie near 0 by design: relative to itself, such an entry moves with the last bit.
    scale = max((abs(v) for v in (*one, *other) if math.isfinite(v)), default=0.0)
    return max((_apart(a, b, scale), a, b) for a, b in zip(one, other, strict=False))


def _apart(a: float, b: float, scale: float) -> float:
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) / scale if scale > 0.0 else 0.0
    return 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else math.inf


PLUGIN: Check = FingerprintMoved()

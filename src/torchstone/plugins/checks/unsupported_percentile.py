"""A percentile that its sample cannot support: the 99th of 50 answers is the slowest one."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.figures import PERCENTILES
from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.quantile import needed
from torchstone.plugins.checks._cases import again, sound, windows
from torchstone.plugins.protocols import Check


class UnsupportedPercentile:
    """Fires on percentiles claimed from fewer steps than MLPerf LoadGen's rule asks for (64, 130, 662).

    torchstone marks its own where it shows them, so that there is nothing to find.
    """

    describes = "percentiles reported from too few samples"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the highest percentile that is not supported, and what it needs."""
        for case_id, _, trials in sound(run):
            found = max((lack for trial in trials for lack in _lacking(trial)), default=None)
            if found is not None:
                share, steps, name = found
                message = f"{name} is reported from {steps} steps, but needs {needed(share)}"
                advice = again(run, "measure longer", "read it as the maximum of a few steps, or measure longer")
                yield Finding("unsupported_percentile", Severity.WARNING, message, advice, case_id)


def _lacking(trial: Trial) -> Iterator[tuple[float, int, str]]:
    claimed = claims(trial)
    steps = sum(len(times) for _, times in windows(trial)) or claimed.get("steps", 0.0)
    for name, share in PERCENTILES.items():
        if name in claimed and 0 < steps < needed(share):
            yield share, int(steps), name.removesuffix("_s")


PLUGIN: Check = UnsupportedPercentile()

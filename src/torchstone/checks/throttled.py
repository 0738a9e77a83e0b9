"""A device whose clock was held down by a power or thermal limit."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.checks._cases import longer, many, sound
from torchstone.extend import Check
from torchstone.stats.readings import gauge
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.run import Run

TOLERATED = 0.05


class Throttled:
    """Fires where the device was throttled in more than 5 % of the readings of more than a tenth of the trials."""

    describes = "a device throttled by heat or power"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming the worst of its trials."""
        for case_id, _, trials in sound(run):
            shares = [found[0] for trial in trials if (found := gauge(trial, "device_throttled")) is not None]
            held = [share for share in shares if share > TOLERATED]
            if many(len(held), len(shares)):
                message = (
                    f"heat or a power limit held the device's clock down in up to {max(held):.0%} of readings of "
                    f"{len(held)} of {len(shares)} trials"
                )
                advice = (
                    "cool the device, raise its power limit or lock a clock that it can hold, and measure again; "
                    f"if that is how it will be used, measure its sustained speed with {longer(run.head.procedure)}"
                )
                yield Finding("throttled", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = Throttled()

"""A device throttled by temperature, by its hardware or by its power limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.readings import gauge
from torchstone.core.units import percent
from torchstone.plugins.checks._cases import longer, many, sound
from torchstone.plugins.protocols import Check

TOLERATED = 0.05


class Throttled:
    """Fires where the device was throttled in more than 5 % of the readings of more than a tenth of the trials.

    A card at work whose power limit holds its clock is as it should be, and will be when it is used. That is told. It
    is a warning where heat or the hardware did it, or where the reason is not recorded.
    """

    describes = "a device throttled by heat or power"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming the worst of its trials, or the information that it ran at its power limit."""
        for case_id, _, trials in sound(run):
            shares = [found[0] for trial in trials if (found := gauge(trial, "device_throttled")) is not None]
            limits = [share for trial in trials if (share := _beyond_power(trial)) is not None]
            if many(sum(share > TOLERATED for share in limits), len(limits)):
                message = f"the device was throttled by temperature or power: {_said(limits)}"
                advice = (
                    "cool the device, raise its power limit or lock a clock that it can sustain, and measure again; "
                    f"for its sustained speed, measure with {longer(run.head.procedure)}"
                )
                yield Finding("throttled", Severity.WARNING, message, advice, case_id)
            elif many(sum(share > TOLERATED for share in shares), len(shares)):
                message = f"the device ran at its power limit, which lowers its clock: {_said(shares)}"
                advice = (
                    "usual at full load; compare only with runs under the same limit and with windows of the same "
                    "length: in short ones the clock is higher"
                )
                yield Finding("throttled", Severity.INFO, message, advice, case_id)


def _beyond_power(trial: Trial) -> float | None:
    """Return the share of readings in which something else than the power limit, or nobody knows what, held it down."""
    held, capped = gauge(trial, "device_throttled"), gauge(trial, "device_power_capped")
    return None if held is None else held[0] - (capped[0] if capped is not None else 0.0)


def _said(shares: Sequence[float]) -> str:
    held = [share for share in shares if share > TOLERATED]
    return f"up to {percent(max(held))} of the readings, in {len(held)} of {len(shares)} trials"


PLUGIN: Check = Throttled()

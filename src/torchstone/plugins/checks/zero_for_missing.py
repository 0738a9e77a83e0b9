"""A 0 that stands for what was not measured: no energy, no memory, 0 °C."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.quantity import Unit
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.integrate import inside
from torchstone.core.stats.readings import spans_s
from torchstone.plugins.checks._cases import again, sound
from torchstone.plugins.protocols import Check

_NEVER = (Unit.SECOND, Unit.BYTE, Unit.JOULE, Unit.WATT, Unit.HERTZ, Unit.CELSIUS, Unit.ITEM_RATE, Unit.TOKEN_RATE)
# A spread may be none, a phase may not be there, and a batch may lie ready.
_MAY_BE = ("step_time_std", "data_wait_s", "kv_cache_bytes")
_GAUGES = ("device_power_w", "device_temperature_c", "device_clock_hz", "device_memory_used_bytes")
_READINGS = 3


class ZeroForMissing:
    """Fires on claimed figures that are exactly 0 and cannot be, and on gauges that read 0 all the time."""

    describes = "zeros in place of missing values"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming what is 0."""
        for case_id, _, trials in sound(run):
            names = dict.fromkeys(name for trial in trials for name in _zeros(trial))
            if names:
                more = f" and {len(names) - 4} more" if len(names) > 4 else ""
                message = f"{', '.join(list(names)[:4])}{more}: reported as 0 where nothing was measured"
                advice = again(
                    run, "the driver reports 0 for values it does not have: use none of these",
                    "exclude them from every mean and comparison; the tool should write no value where it has none",
                )  # fmt: skip
                yield Finding("zero_for_missing", Severity.WARNING, message, advice, case_id)


def _zeros(trial: Trial) -> Iterator[str]:
    for name, value in claims(trial).items():
        known = name in FIGURES and FIGURES[name].unit in _NEVER
        if value == 0.0 and known and name not in _MAY_BE and not name.startswith("phase_"):
            yield name
    for series in trial.series:
        readings = inside(series.at_s, series.values, spans_s(trial))
        if series.metric in _GAUGES and len(readings) >= _READINGS and not any(readings):
            yield series.metric


PLUGIN: Check = ZeroForMissing()

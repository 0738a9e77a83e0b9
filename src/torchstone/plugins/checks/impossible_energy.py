"""Energy that is not power times time, a counter that its own power contradicts, power that no device draws."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.integrate import increase, integral
from torchstone.core.stats.readings import gauge, spans_s
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

# No board takes more: the largest, of 2026, are sold with 1.4 kW. A driver may tell the device's own limit (the gauge
# device_power_limit_w), another program too (the fact power_limit_w).
MOST_W = 2000.0
_OVER = 1.1  # power limits are held on average, not in every reading: means are compared
_APART = 1.5
_LONG_S = 2.0  # energy counters tick every 0.1 s, and power is a mean of up to a second
_FEW = 5
_TOLERANCE = 0.05
_SLIPS = {1e3: "off by a factor of 1,000 (mJ or mW)", 3600.0: "probably Wh read as J", 3.6e6: "probably kWh read as J"}


class ImpossibleEnergy:
    """Fires on energy above the power limit times the time, and where energy, power and time contradict each other."""

    describes = "energy above power limit × time, or not equal to power × time"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding for each contradiction of a Case: an error where no device draws so much."""
        for case_id, case, trials in sound(run):
            seen = dict.fromkeys(found for trial in trials for found in _contradictions(case, trial))
            for severity, message in seen:
                advice = "do not use the energy of this case: wrong unit or unreliable sensor"
                yield Finding("impossible_energy", severity, message, advice, case_id)


def _contradictions(case: Case, trial: Trial) -> Iterator[tuple[Severity, str]]:
    claimed = claims(trial)
    limit_w = _limit_w(trial)
    most_w = (limit_w or MOST_W) * case.placement.devices
    power_w, energy_j = claimed.get("average_power_w"), claimed.get("energy_j")
    time_s = claimed.get("energy_time_s", claimed.get("total_time_s"))  # energy may have a pass of its own
    drawn = gauge(trial, "device_power_w")
    means_w = (power_w, drawn[0] if drawn is not None else None, energy_j / time_s if energy_j and time_s else None)
    over = [w for w in means_w if w is not None]
    if over and max(over) > _OVER * most_w:
        of = "its power limit is" if limit_w is not None else "no device draws more than"
        yield Severity.ERROR, f"average power is {quantity(max(over), 'W')}, but {of} {quantity(most_w, 'W')}"
    elif energy_j and power_w and time_s and not _near(energy_j, power_w * time_s):
        yield Severity.WARNING, _product(energy_j, power_w, time_s)
    items, each_j = claimed.get("total_items"), claimed.get("energy_per_item_j")
    if energy_j and items and each_j and not _near(each_j * items, energy_j):
        told = f"{quantity(each_j, 'J')} per item × {items:.0f} items is not {quantity(energy_j, 'J')}"
        yield Severity.WARNING, told + _slip(energy_j / (each_j * items))
    readings = claimed.get("power_readings")
    if readings is not None and readings < _FEW and (power_w or energy_j):
        yield Severity.WARNING, f"power was sampled only {readings:.0f} time{'s' * (readings != 1)}"
    yield from _sensors(trial)


def _limit_w(trial: Trial) -> float | None:
    read, said = gauge(trial, "device_power_limit_w"), trial.facts.get("power_limit_w")
    limit_w = read[0] if read is not None else said
    if isinstance(limit_w, bool) or not isinstance(limit_w, int | float):
        return None
    return float(limit_w) if limit_w > 0.0 else None


def _near(one: float, other: float) -> bool:
    return other > 0.0 and abs(one / other - 1.0) <= _TOLERANCE


def _product(energy_j: float, power_w: float, time_s: float) -> str:
    told = f"{quantity(power_w, 'W')} × {quantity(time_s, 's')} is not {quantity(energy_j, 'J')}"
    return told + _slip(energy_j / (power_w * time_s))


def _slip(ratio: float) -> str:
    found = (why for f, why in _SLIPS.items() if any(_near(ratio, factor) for factor in (f, 1.0 / f)))
    return f": {why}" if (why := next(found, None)) else ""


def _sensors(trial: Trial) -> Iterator[tuple[Severity, str]]:
    """Compare the device's energy counter with the integral of its power, over all windows together."""
    spans = spans_s(trial)
    if math.fsum(end - begin for begin, end in spans) < _LONG_S:
        return
    counters = [s for s in trial.series if s.metric == "device_energy_j"]
    powers = [s for s in trial.series if s.metric == "device_power_w" and len(s.values) >= _FEW]
    for counter in counters:
        for power in powers:
            if counter.device != power.device or counter.rank != power.rank:
                continue
            counted = [increase(counter.at_s, counter.values, *span) for span in spans]
            summed = [integral(power.at_s, power.values, *span) for span in spans]
            whole = [math.fsum(v for v in each if v is not None) for each in (counted, summed)]
            if None in (*counted, *summed) or min(whole) <= 0.0:
                continue
            if not 1.0 / _APART <= whole[0] / whole[1] <= _APART:
                counter_j, power_j = (quantity(v, "J") for v in whole)
                yield Severity.WARNING, f"the energy counter reports {counter_j}, but power integrates to {power_j}"


PLUGIN: Check = ImpossibleEnergy()

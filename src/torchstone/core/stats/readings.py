"""What the Series of a Trial say of its steady windows: energy, power, gauges, and who else used the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median

from torchstone.core.schema.metric import RAW
from torchstone.core.schema.quantity import Pool
from torchstone.core.schema.trial import Series, Stage, Trial
from torchstone.core.stats.integrate import beside, increase, inside, integral, outside

Found = dict[str, tuple[float, int]]  # figure → value, how many readings or steps stand behind it

_GAUGES = ("device_utilization", "device_memory_used_bytes", "device_temperature_c", "device_clock_hz")
_BETWEEN_WINDOWS = ("device_other_processes",)  # to read it disturbs: it is read before them and after
FEWEST_TICKS = 20  # of an energy counter: each end of the windows is known to a tick, so that is 5 % at worst
USUAL_TICK_S = 0.1  # of NVIDIA's counters, where it could not be measured
_OVER: dict[Pool, Callable[[Sequence[float]], float]] = {
    Pool.MEDIAN: median,
    Pool.MEAN: fmean,
    Pool.SUM: sum,
    Pool.MAX: max,
    Pool.MIN: min,
    Pool.FIRST: lambda values: values[0],
    Pool.LAST: lambda values: values[-1],
    Pool.ONLY: lambda values: values[0],
}
_Over = Callable[[Sequence[float], Sequence[float], float, float], float | None]


def pool(values: Sequence[float], how: Pool) -> float:
    """Return the one figure that `how` makes of at least one value, in their unit."""
    return float(_OVER[how](values))


def spans_s(trial: Trial) -> tuple[tuple[float, float], ...]:
    """Return begin and end of every steady window, in seconds since the trial was asked for (the clock of Series)."""
    return tuple(
        (m.values[0], m.values[1])
        for m in trial.measurements
        if m.metric == "window_span_s" and m.stage == Stage.STEADY and m.rank == 0 and len(m.values) == 2
    )


def gauge(trial: Trial, metric: str, over_steps: Pool | None = None) -> tuple[float, int] | None:
    """Return a gauge over the steady windows and its number of readings; None where none was taken inside one.

    Each device's readings are pooled as the Metric pools over steps (or by `over_steps`), then the devices as it pools
    over ranks.
    """
    spans = spans_s(trial)
    each = [r for r in (_read(s, spans) for s in _series(trial, metric)) if r]
    if not each:
        return None
    how = over_steps or RAW[metric].over_steps
    value = pool([pool(readings, how) for readings in each], RAW[metric].over_ranks)
    return value, sum(map(len, each))


def ticked_enough(trial: Trial) -> bool:
    """Say whether the device's energy counter moved often enough in the steady windows to tell their energy."""
    tick_s = energy_tick_s(trial)
    return tick_s is None or _time_s(trial) >= FEWEST_TICKS * tick_s


def energy_tick_s(trial: Trial) -> float | None:
    """Return how often the device's energy counter moves, in seconds; None where it has none, or nobody tells."""
    told = trial.facts.energy_tick_s
    if isinstance(told, float | int) and told > 0.0:
        return float(told)
    is_nvidias = any(s.source == "nvml" for s in _series(trial, "device_energy_j"))
    return USUAL_TICK_S if is_nvidias else None


def other_cpu_cores(trial: Trial) -> float | None:
    """Return how many cores other processes kept busy during the steady windows; None without both CPU counters.

    Without the parts of the windows that figures leave out.
    """
    spans = tuple(outside(spans_s(trial), trial.disturbance.left_out_s if trial.disturbance is not None else ()))
    host = _over_windows(trial, "host_busy_s", increase, spans)
    own = _over_windows(trial, "process_cpu_s", increase, spans)
    if host is None or own is None:
        return None
    return max(0.0, host - own) / math.fsum(end - begin for begin, end in spans)


def steal_share(trial: Trial) -> float | None:
    """Return the share of the CPU time of all cores that the hypervisor gave to others during the steady windows."""
    steal, cores = _over_windows(trial, "host_steal_s", increase), trial.facts.logical_cores
    if steal is None or not isinstance(cores, int | float) or cores <= 0:
        return None
    return steal / (_time_s(trial) * cores)


def from_series(trial: Trial, items: float | None) -> Found:
    """Return every figure of the Series: energy and power, device gauges, other processes, steal; absent is absent.

    `items`: those of all steady windows together, or None. Energy in J, power in W.
    """
    found: Found = {}
    energy_j, readings = _energy_j(trial)
    power_w = gauge(trial, "device_power_w")
    if energy_j is not None:
        found["energy_j"] = (energy_j, readings)
        found["average_power_w"] = (energy_j / _time_s(trial), readings)
        if items:
            found["energy_per_item_j"] = (energy_j / items, readings)
    elif power_w is not None:
        found["average_power_w"] = power_w
    found.update(_counted(trial, items))
    for metric in _GAUGES:
        value = gauge(trial, metric)
        if value is not None:
            found[metric] = value
    held = gauge(trial, "device_memory_used_bytes", Pool.MEAN)
    if held is not None:
        found["mean_device_memory_used_bytes"] = held
    for name, share in (("other_cpu_cores", other_cpu_cores(trial)), ("steal_share", steal_share(trial))):
        if share is not None:
            found[name] = (share, len(spans_s(trial)))
    return found


def _counted(trial: Trial, items: float | None) -> Found:
    """Return what the CPU's hardware counters say of the steady windows."""
    names = ("instructions", "cpu_cycles", "cache_misses")
    counts = {name: _over_windows(trial, name, increase) for name in names}
    readings = {name: sum(len(series.values) for series in _series(trial, name)) for name in names}
    instructions, cycles, misses = (counts[name] for name in names)
    found: Found = {}
    if instructions is not None and cycles:
        found["instructions_per_cycle"] = (instructions / cycles, readings["instructions"])
    if misses is not None and items:
        found["cache_misses_per_item"] = (misses / items, readings["cache_misses"])
    return found


def _energy_j(trial: Trial) -> tuple[float | None, int]:
    """Return the energy of the steady windows and its readings: a device's counter, else its power, else RAPL.

    None where the counter moved too seldom in them: power that is read still more seldom knows no better.
    """
    sources: list[tuple[str, _Over]] = [("device_energy_j", increase), ("device_power_w", integral)]
    # The CPU packages' energy is not that of a GPU which happens to tell nothing.
    is_cpu = (trial.facts.device or "cpu").partition(":")[0] == "cpu"
    if is_cpu and not any(s.metric.startswith("device_") for s in trial.series):
        sources.append(("package_energy_j", increase))
    for metric, over in sources:
        energy_j = _over_windows(trial, metric, over)
        if energy_j is not None and metric == "device_energy_j" and not ticked_enough(trial):
            return None, 0
        if energy_j is not None:
            return energy_j, sum(len(s.values) for s in _series(trial, metric))
    return None, 0


def _over_windows(
    trial: Trial, metric: str, over: _Over, spans: Sequence[tuple[float, float]] | None = None
) -> float | None:
    """Return the total over windows, devices pooled over ranks; None if a single window or device is not covered."""
    spans, each = spans_s(trial) if spans is None else spans, []
    for series in _series(trial, metric):
        parts = [over(series.at_s, series.values, begin, end) for begin, end in spans]
        known = [part for part in parts if part is not None]
        if not spans or len(known) < len(spans):
            return None
        each.append(sum(known))
    return pool(each, RAW[metric].over_ranks) if each else None


def _time_s(trial: Trial) -> float:
    return sum(end - begin for begin, end in spans_s(trial))


def _read(series: Series, spans: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    found = inside(series.at_s, series.values, spans)
    if not found and series.metric in _BETWEEN_WINDOWS:
        return beside(series.at_s, series.values, spans)
    return found


def _series(trial: Trial, metric: str) -> list[Series]:
    return [s for s in trial.series if s.metric == metric and s.rank == 0]

"""What the Series of a Trial say of its steady windows: energy, power, gauges, and who else used the machine."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median

from torchstone.core.schema.metric import RAW, Pool
from torchstone.core.schema.trial import Series, Stage, Trial


def increase(at_s: Sequence[float], counter: Sequence[float], begin_s: float, end_s: float) -> float | None:
    """Return by how much a cumulative counter rose from begin to end, in its unit, linear between readings.

    `at_s` ascends and is as long as `counter`. None where the readings do not reach both ends (nothing is
    extrapolated), where end <= begin, or where the counter fell (it was reset).
    """
    first, last = _at(at_s, counter, begin_s), _at(at_s, counter, end_s)
    if first is None or last is None or end_s <= begin_s or last < first:
        return None
    return last - first


def integral(at_s: Sequence[float], rate: Sequence[float], begin_s: float, end_s: float) -> float | None:
    """Return ∫ rate dt from begin to end by the trapezoid rule, in unit × seconds; None as for `increase`."""
    first, last = _at(at_s, rate, begin_s), _at(at_s, rate, end_s)
    if first is None or last is None or end_s <= begin_s:
        return None
    inner = slice(bisect_right(at_s, begin_s), bisect_left(at_s, end_s))
    times = [begin_s, *at_s[inner], end_s]
    rates = [first, *rate[inner], last]
    return sum((times[i + 1] - times[i]) * (rates[i] + rates[i + 1]) / 2.0 for i in range(len(times) - 1))


def inside(at_s: Sequence[float], values: Sequence[float], spans_s: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the readings taken within any of the spans (ends included), in order of the spans."""
    return tuple(v for begin, end in spans_s for v in values[bisect_left(at_s, begin) : bisect_right(at_s, end)])


def neighbouring_readings(
    at_s: Sequence[float], values: Sequence[float], spans_s: Sequence[tuple[float, float]]
) -> tuple[float, ...]:
    """Return the last reading before each of the spans and the first after it, those there are, in order."""
    near: set[int] = set()
    for begin, end in spans_s:
        near |= {bisect_left(at_s, begin) - 1, bisect_right(at_s, end)}
    return tuple(values[index] for index in sorted(near) if 0 <= index < len(values))


def outside(
    spans_s: Sequence[tuple[float, float]], parts: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield what of the spans lies outside the parts, which are in order and do not overlap."""
    for begin, end in spans_s:
        at = begin
        for first, last in parts:
            if first < end and last > at:
                if first > at:
                    yield at, first
                at = last
        if at < end:
            yield at, end


def _at(at_s: Sequence[float], values: Sequence[float], when_s: float) -> float | None:
    if len(at_s) < 2 or not at_s[0] <= when_s <= at_s[-1]:
        return None
    right = min(max(1, bisect_left(at_s, when_s)), len(at_s) - 1)
    gap = at_s[right] - at_s[right - 1]
    share = (when_s - at_s[right - 1]) / gap if gap > 0.0 else 0.0
    return values[right - 1] + share * (values[right] - values[right - 1])


FigureValues = dict[str, tuple[float, int]]  # figure → value, how many readings or steps stand behind it

_GAUGES = ("device_utilization", "device_memory_used_bytes", "device_temperature_c", "device_clock_hz")
# To read these disturbs: they are read before the windows and after.
_BETWEEN_WINDOWS = ("device_other_processes", "device_working_processes")
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


def processes_on_device(trial: Trial) -> tuple[float, int] | None:
    """Return the most processes beside the trial that used its device, and the number of readings; None: not told.

    Where the driver does not tell which of them worked, all that have a context on it are taken for such.
    """
    working = gauge(trial, "device_working_processes")
    return working if working is not None else gauge(trial, "device_other_processes")


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


def own_cpu_cores(trial: Trial) -> float | None:
    """Return how many cores the trial's processes kept busy during the steady windows; None where that is not told."""
    own, time_s = _over_windows(trial, "process_cpu_s", increase), _time_s(trial)
    return None if own is None or time_s <= 0.0 else own / time_s


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


def from_series(trial: Trial, items: float | None) -> FigureValues:
    """Return every figure of the Series: energy and power, device gauges, other processes, steal; absent is absent.

    `items`: those of all steady windows together, or None. Energy in J, power in W.
    """
    found: FigureValues = {}
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
    shares = ("own_cpu_cores", own_cpu_cores), ("other_cpu_cores", other_cpu_cores), ("steal_share", steal_share)
    for name, share in ((name, share_of(trial)) for name, share_of in shares):
        if share is not None:
            found[name] = (share, len(spans_s(trial)))
    return found


def _counted(trial: Trial, items: float | None) -> FigureValues:
    """Return what the CPU's hardware counters say of the steady windows."""
    names = ("instructions", "cpu_cycles", "cache_misses")
    counts = {name: _over_windows(trial, name, increase) for name in names}
    readings = {name: sum(len(series.values) for series in _series(trial, name)) for name in names}
    instructions, cycles, misses = (counts[name] for name in names)
    found: FigureValues = {}
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
        return neighbouring_readings(series.at_s, series.values, spans)
    return found


def _series(trial: Trial, metric: str) -> list[Series]:
    return [s for s in trial.series if s.metric == metric and s.rank == 0]

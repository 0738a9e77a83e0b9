"""Does what a tool claims follow from what it measured: rates, summaries, energy, zeros, choices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import fmean

from torchstone.core.figures import figures, raw
from torchstone.core.messages import Value, Values
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.metric import DEVICE_PEAKS, may_be_zero
from torchstone.core.schema.run import Run, is_imported
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.stats.readings import gauge, increase, inside, integral, spans_s
from torchstone.plugins.checks._cases import INLINE, once, sound, windows
from torchstone.plugins.protocols import check

Seen = tuple[Severity, str, Mapping[str, Value]]  # how bad, which message, and its values

# ── rates ───────────────────────────────────────────────────────────────────────────────────────────────────

RATE_TOLERANCE = 0.02
_LOOSE = 0.5  # a rate may be so much below the steps' own: what lies between steps is in the one and not in the other
_EXACT = 0.002  # half of a rate, as two batches counted once make it; what lies between steps is seldom just as much
_PLAIN = 1.2  # beyond this factor a known mistake explains it, or none


@check("a reported throughput that is not items divided by time")
def wrong_rate(run: Run) -> Iterator[Finding]:
    """Fire where a claimed throughput is not the items over the time of the same file, and name the likely mistake.

    Rates are total items over total time; their mean over steps is higher by about the squared coefficient of
    variation (Jensen's inequality; SuperBench's model_base.py, NVIDIA/DeepLearningExamples#1264). It is an error where
    a mistake that is known explains the factor.
    """
    own = not is_imported(run) and run.head.procedure.isolation != INLINE  # a user's loop counts as it likes
    for case_id, case, trials in sound(run):
        found = next((seen for trial in trials if (seen := _wrong_rate(case, trial)) is not None), None)
        if found is None and own:
            found = next((seen for trial in trials if (seen := _volume(case, trial)) is not None), None)
        if found is not None:
            severity, reason, values = found
            yield Finding("wrong_rate", severity, case_id, values, reason)


def _wrong_rate(case: Case, trial: Trial) -> Seen | None:
    claimed = trial.facts.claimed
    said = claimed.get("throughput", 0.0)
    if trial.facts.rate_unclear is True:
        return None
    for items, time_s, exact in _right(case, trial, claimed):
        rate = items / time_s
        if not (said > 0.0 and rate > 0.0 and math.isfinite(said * rate)):
            continue
        ratio = said / rate
        mistake = _mistake(case, trial, claimed, ratio)
        halved = abs(2.0 * ratio - 1.0) <= _EXACT and mistake is not None
        if (1.0 - RATE_TOLERANCE if exact else _LOOSE) <= ratio <= 1.0 + RATE_TOLERANCE and not halved:
            return None
        values: Values = {
            "reported": said,
            "items": round(items),
            "duration": time_s,
            "rate": rate,
            "factor": ratio,
            "steps": round(_steps(trial, claimed)),
        }
        if max(ratio, 1.0 / ratio) > _PLAIN and mistake is not None:
            return Severity.ERROR, mistake, values
        if ratio > 1.0 and _is_mean_of_rates(trial, claimed, rate, said):
            return Severity.WARNING, "mean_of_rates", values
        return Severity.WARNING, "more" if ratio > 1.0 else "less", values
    return None


def _volume(case: Case, trial: Trial) -> Seen | None:
    """Compare the items of a step with the batch that its Case asks for: an allocator that gave in, a wrong count."""
    items, asked, there = raw(trial, "items"), _items_a_step(case), trial.facts.dataset_items
    if not items or asked is None or trial.facts.unreadable_items:
        return None
    most = max(items) * case.placement.devices  # the last batch of an epoch may be short
    if most == asked or (most < asked and isinstance(there, int) and there < asked):
        return None
    return Severity.ERROR, "volume", {"items": f"{most:g}", "asked": f"{asked:g}"}


def _right(case: Case, trial: Trial, claimed: Mapping[str, float]) -> Iterator[tuple[float, float, bool]]:
    """Yield (items, seconds, whether the rate may not be lower either), the surest first."""
    steps_s = sum(t for _, each in windows(trial) for t in each) or sum(raw(trial, "window_time_s"))  # of a load
    items = sum(raw(trial, "items"))
    if items > 0.0 and steps_s > 0.0:
        yield items, steps_s, False
    total_items, total_s = claimed.get("total_items", 0.0), claimed.get("total_time_s", 0.0)
    if total_items > 0.0 and total_s > 0.0:
        yield total_items, total_s, True
    step_s = claimed.get("step_time_mean") or claimed.get("latency_per_batch_mean_s") or claimed.get("anatomy_step_s")
    if step_s and (size := claimed.get("items_per_step") or _items_a_step(case)):
        yield size, step_s, False


def _items_a_step(case: Case) -> float | None:
    size, pulls = case.configuration.get("batch_size"), case.configuration.get("grad_accumulation", 1)
    if not isinstance(size, int | float) or not isinstance(pulls, int | float):
        return None
    return size * case.placement.devices * (pulls if case.workload.task == Task.TRAIN else 1)


def _steps(trial: Trial, claimed: Mapping[str, float]) -> float:
    return float(sum(len(times) for _, times in windows(trial)) or claimed.get("steps", 0.0))


def _mistake(case: Case, trial: Trial, claimed: Mapping[str, float], ratio: float) -> str | None:
    size, pulls = case.configuration.get("batch_size"), case.configuration.get("grad_accumulation")
    tokens, made = (case.configuration.get(axis) for axis in ("sequence_length", "new_tokens"))
    factors = [
        (_steps(trial, claimed), "steps"),
        (size, "batch_twice"),
        (_over(size), "batches"),
        (case.placement.devices, "devices_twice"),
        (_over(case.placement.devices), "one_device"),
        (pulls, "accumulated_twice"),
        (_over(pulls), "accumulated_once"),
        (tokens, "tokens_for_sequences"),
        (made, "tokens_for_texts"),
        (made - 1 if isinstance(made, int) else None, "generated_tokens"),
        (1e3, "milliseconds"),
        (1e-3, "seconds"),
        (60.0, "minutes"),
        (3600.0, "hours"),
        (1e6, "microseconds"),
    ]
    for factor, why in factors:
        if isinstance(factor, int | float) and factor > 0.0 and abs(ratio / factor - 1.0) <= RATE_TOLERANCE:
            return why
    return None


def _over(value: object) -> float | None:
    return 1.0 / value if isinstance(value, int | float) and value > 0 else None


def _is_mean_of_rates(trial: Trial, claimed: Mapping[str, float], rate: float, said: float) -> bool:
    times, items = [t for _, each in windows(trial) for t in each], raw(trial, "items")
    if times and len(items) == len(times):
        rates = [i / t for i, t in zip(items, times, strict=True) if t > 0.0]
        return bool(rates) and abs(fmean(rates) / said - 1.0) < 0.005
    mean = claimed.get("step_time_mean") or claimed.get("latency_per_batch_mean_s")
    spread = claimed.get("step_time_std") or claimed.get("latency_per_batch_std_s")
    return bool(mean and spread and abs(rate * (1.0 + (spread / mean) ** 2) / said - 1.0) < RATE_TOLERANCE)


# ── summaries ───────────────────────────────────────────────────────────────────────────────────────────────

TOLERANCE = 0.005
_FACTORS = {1e3: "milliseconds", 1e6: "microseconds", 60.0: "minutes", 1e9: "nanoseconds"}
_TOKEN_TIMES = ("time_to_first_token", "time_per_output_token")
_OF_EACH = ("query_latency", *_TOKEN_TIMES)  # one value a request
_SHARES = {"p50": 0.5, "p90": 0.90, "p95": 0.95, "p99": 0.99}


@check("a summary that contradicts its own raw values")
def wrong_summary(run: Run) -> Iterator[Finding]:
    """Fire where a claimed mean, percentile, deviation or total is not that of the steps that the file holds.

    It is an error where a known mistake explains it.
    """
    for case_id, _, trials in sound(run):
        yield from once(
            Finding("wrong_summary", severity, case_id, values, reason)
            for trial in trials
            for severity, reason, values in _wrong_summaries(trial)
        )


def _wrong_summaries(trial: Trial) -> Iterator[Seen]:
    claimed = trial.facts.claimed
    for name in _OF_EACH:
        if (values := raw(trial, f"{name}_s")) and all(map(math.isfinite, values)):
            for severity, why, told in _compared(_claims_of(claimed, f"{name}_{{}}_s"), values, ()):
                reason = why or _of_tokens(name, told, trial)
                worst = Severity.WARNING if reason == "gaps" else severity  # a tool may mean another thing by it
                yield worst, reason, {**told, "figure": f"{name}_{told['figure']}"}
    for name, times in windows(trial):
        said = _claims_of(claimed, "latency_per_batch_{}_s" if name == "latency" else "step_time_{}")
        if "total_time_s" in claimed and sum(n == name for n, _ in windows(trial)) == 1:
            said["total"] = claimed["total_time_s"]
        if times and all(map(math.isfinite, times)):
            yield from _compared(said, times, trial.values("step_time_s", Stage.WARMUP))


def _claims_of(claimed: Mapping[str, float], words: str) -> dict[str, float]:
    found = {word: claimed.get(words.format(word)) for word in (*_SHARES, "mean", "std", "min", "max")}
    return {word: value for word, value in found.items() if value is not None}


def _of_tokens(name: str, told: Mapping[str, Value], trial: Trial) -> str:
    """Return the mistake that explains the mean of a time of tokens; nothing where none does.

    GuideLLM counts what is missing as 0.0 (schemas/metrics.py: `req.time_to_first_token_ms or 0.0`); transformers
    counts the end of a generation as a token (benchmark_runner.py: `BenchmarkStreamer.end`).
    """
    ratio = float(str(told["reported"])) / (float(str(told["actual"])) or math.inf)
    count, tokens = trial.facts.claimed.get("steps", 0.0), trial.facts.new_tokens
    if name not in _TOKEN_TIMES or told["figure"] != "mean":
        return ""
    if count > len(raw(trial, f"{name}_s")) and abs(ratio * count / len(raw(trial, f"{name}_s")) - 1.0) < TOLERANCE:
        return "zeros"
    gaps = (tokens - 1) if name == _TOKEN_TIMES[1] and tokens else 0
    return "gaps" if any(gaps and abs(ratio * n / gaps - 1.0) < TOLERANCE for n in (gaps + 1, gaps + 2)) else ""


def _compared(said: Mapping[str, float], times: tuple[float, ...], warmup: tuple[float, ...]) -> Iterator[Seen]:
    ordered = sorted(times)
    for word, value in said.items():
        low, high = _allowed(word, ordered)
        if low * (1.0 - TOLERANCE) <= value <= high * (1.0 + TOLERANCE) or value == 0.0:
            continue  # a 0 is another check's
        why = _explained(word, value, low, times, warmup)
        values: Values = {"figure": word, "steps": len(times), "reported": value, "actual": low}
        if why is not None:
            yield Severity.ERROR, why, values
        elif word != "total" or value < low:  # a total may hold more than the steps
            yield Severity.WARNING, "", values


def _allowed(word: str, ordered: list[float]) -> tuple[float, float]:
    """Return from where to where a figure may lie: definitions of quantiles and of the deviation differ."""
    n = len(ordered)
    if word in _SHARES:
        place = _SHARES[word] * (n - 1)
        return ordered[max(0, math.floor(place) - 1)], ordered[min(n - 1, math.ceil(place) + 1)]
    mean = fmean(ordered)
    squares = math.fsum((v - mean) ** 2 for v in ordered)
    exact = {
        "mean": (mean, mean),
        "min": (ordered[0], ordered[0]),
        "max": (ordered[-1], ordered[-1]),
        "total": (math.fsum(ordered), math.fsum(ordered)),
        "std": (math.sqrt(squares / n), math.sqrt(squares / max(1, n - 1))),
    }
    return exact[word]


def _explained(
    word: str, value: float, right: float, times: tuple[float, ...], warmup: tuple[float, ...]
) -> str | None:
    for factor, why in _FACTORS.items():
        if right > 0.0 and any(abs(value / right / f - 1.0) < 2.0 * TOLERANCE for f in (factor, 1.0 / factor)):
            return why
    if word == "std" and right > 0.0 and abs(value * math.sqrt(len(times)) / right - 1.0) < 0.1:
        return "standard_error"
    if word == "mean" and warmup and abs(fmean((*warmup, *times)) / value - 1.0) < TOLERANCE:
        return "warmup"
    return None


# ── the order of figures ────────────────────────────────────────────────────────────────────────────────────

ROUNDING = 1e-6
_FAMILIES = {
    "latency_per_batch": "latency_per_batch_{}_s",
    "step_time": "step_time_{}",
    "loss": "loss_{}",
    "time_to_first_token": "time_to_first_token_{}_s",
    "time_per_output_token": "time_per_output_token_{}_s",
    "query_latency": "query_latency_{}_s",
}
_RISING = ("min", "p50", "p90", "p95", "p99", "max")


@check("minimum, mean, percentiles and maximum that contradict each other")
def out_of_order(run: Run) -> Iterator[Finding]:
    """Fire where what a tool says of one sample cannot be said of any, for each family of figures.

    Beside the order itself: half the range bounds the standard deviation from above (Popoviciu, Mathematica (Cluj) 9,
    1935; sample form), and range / √(2(n-1)) from below (Nagy, Jahresber. DMV 27, 1918): what lies below is the
    standard error of the mean.
    """
    for case_id, _, trials in sound(run):
        yield from once(
            Finding("out_of_order", Severity.ERROR, case_id, values, reason)
            for trial in trials
            for reason, values in _disorder(trial.facts.claimed)
        )


def _disorder(claimed: Mapping[str, float]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    for family, pattern in _FAMILIES.items():
        known = {word: claimed.get(pattern.format(word)) for word in (*_RISING, "mean", "std")}
        values = {word: value for word, value in known.items() if value is not None and math.isfinite(value)}
        yield from _unordered(family, values)
        yield from _no_spread(family, values, claimed.get("steps"))


def _unordered(family: str, values: Mapping[str, float]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    rising = [(word, values[word]) for word in _RISING if word in values]
    bounds = [(word, values[word]) for word in ("min", "mean", "max") if word in values]
    for (low, a), (high, b) in (*pairwise(rising), *pairwise(bounds)):
        if a > b + ROUNDING * abs(b):
            yield "", {"figure": family, "lower": low, "low": a, "upper": high, "high": b}
            return


def _no_spread(
    family: str, values: Mapping[str, float], steps: float | None
) -> Iterator[tuple[str, Mapping[str, Value]]]:
    if not {"std", "min", "max"} <= values.keys() or values["max"] <= values["min"]:
        return
    spread, deviation = values["max"] - values["min"], values["std"]
    if deviation > spread / math.sqrt(2.0) * (1.0 + ROUNDING):
        yield "large_deviation", {"figure": family, "deviation": deviation}
    elif steps is not None and steps > 2 and deviation < 0.9 * spread / math.sqrt(2.0 * steps):
        # 0.9, and n in the place of n - 1: rounding, and deviations of the whole population
        yield "small_deviation", {"figure": family, "deviation": deviation, "range": spread, "steps": round(steps)}


# ── energy ──────────────────────────────────────────────────────────────────────────────────────────────────

# No board takes more: the largest, of 2026, are sold with 1.4 kW. A driver may tell the device's own limit (the gauge
# device_power_limit_w), another program too (the fact power_limit_w).
MOST_W = 2000.0
_OVER = 1.1  # power limits are held on average, not in every reading: means are compared
_APART = 1.5
_LONG_S = 2.0  # energy counters tick every 0.1 s, and power is a mean of up to a second
_FEW = 5
_ENERGY_TOLERANCE = 0.05
_SLIPS = {1e3: ".milli", 3600.0: ".Wh", 3.6e6: ".kWh"}


@check("energy above power limit × time, or not equal to power × time")
def impossible_energy(run: Run) -> Iterator[Finding]:
    """Fire on energy above the power limit times the time, and where energy, power and time contradict each other.

    It is an error where no device draws so much.
    """
    for case_id, case, trials in sound(run):
        yield from once(
            Finding("impossible_energy", severity, case_id, values, reason)
            for trial in trials
            for severity, reason, values in _of_energy(case, trial)
        )


def _of_energy(case: Case, trial: Trial) -> Iterator[Seen]:
    claimed = trial.facts.claimed
    limit_w = _limit_w(trial)
    most_w = (limit_w or MOST_W) * case.placement.devices
    power_w, energy_j = claimed.get("average_power_w"), claimed.get("energy_j")
    time_s = claimed.get("energy_time_s", claimed.get("total_time_s"))  # energy may have a pass of its own
    drawn = gauge(trial, "device_power_w")
    means_w = (power_w, drawn[0] if drawn is not None else None, energy_j / time_s if energy_j and time_s else None)
    over = [w for w in means_w if w is not None]
    if over and max(over) > _OVER * most_w:
        reason = "limit" if limit_w is not None else "no_device"
        yield Severity.ERROR, reason, {"power": max(over), "limit": most_w}
    elif energy_j and power_w and time_s and not _near(energy_j, power_w * time_s):
        slip = _slip(energy_j / (power_w * time_s))
        yield Severity.WARNING, f"product{slip}", {"power": power_w, "duration": time_s, "energy": energy_j}
    items, each_j = claimed.get("total_items"), claimed.get("energy_per_item_j")
    if energy_j and items and each_j and not _near(each_j * items, energy_j):
        slip = _slip(energy_j / (each_j * items))
        yield Severity.WARNING, f"items{slip}", {"each": each_j, "items": round(items), "energy": energy_j}
    readings = claimed.get("power_readings")
    if readings is not None and readings < _FEW and (power_w or energy_j):
        yield Severity.WARNING, "few_readings", {"readings": round(readings)}
    yield from _sensors(trial)


def _limit_w(trial: Trial) -> float | None:
    read, said = gauge(trial, "device_power_limit_w"), trial.facts.power_limit_w
    limit_w = read[0] if read is not None else said
    return limit_w if limit_w is not None and limit_w > 0.0 else None


def _near(one: float, other: float) -> bool:
    return other > 0.0 and abs(one / other - 1.0) <= _ENERGY_TOLERANCE


def _slip(ratio: float) -> str:
    return next((why for f, why in _SLIPS.items() if any(_near(ratio, factor) for factor in (f, 1.0 / f))), "")


def _sensors(trial: Trial) -> Iterator[Seen]:
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
                yield Severity.WARNING, "counter", {"counter": whole[0], "power": whole[1]}


# ── zeros ───────────────────────────────────────────────────────────────────────────────────────────────────

_GAUGES = ("device_power_w", "device_temperature_c", "device_clock_hz", "device_memory_used_bytes")
_READINGS = 3
_NAMED = 4


@check("zeros in place of missing values")
def zero_for_missing(run: Run) -> Iterator[Finding]:
    """Fire on claimed figures that are exactly 0 and cannot be, and on gauges that read 0 all the time."""
    remedies = ("zeros_there" if is_imported(run) else "driver_zeros",)
    for case_id, _, trials in sound(run):
        names = tuple(dict.fromkeys(name for trial in trials for name in _zeros(trial)))
        if names:
            more = len(names) - _NAMED
            values: Values = {"figures": names[:_NAMED], "more": max(0, more)}
            reason = "more" if more > 0 else ""
            yield Finding("zero_for_missing", Severity.WARNING, case_id, values, reason, remedies)


def _zeros(trial: Trial) -> Iterator[str]:
    for name, value in trial.facts.claimed.items():
        if value == 0.0 and not may_be_zero(name):
            yield name
    for series in trial.series:
        readings = inside(series.at_s, series.values, spans_s(trial))
        if series.metric in _GAUGES and len(readings) >= _READINGS and not any(readings):
            yield series.metric


# ── choices ─────────────────────────────────────────────────────────────────────────────────────────────────

_CHOICE_TOLERANCE = 0.005
_TOP = 0.95  # of the highest throughput: below it, efficiency is bought with speed
_MEMORIES = (*DEVICE_PEAKS, "device_memory_used_bytes")


@check("a configuration labelled best that is not the best of its own table")
def wrong_choice(run: Run) -> Iterator[Finding]:
    """Fire where a Case is said to have the highest throughput or efficiency, and another of its run has a higher one.

    Efficiency is items/s per GB: highest where next to no memory is used, which is nobody's best. torchstone looks for
    it among Cases within 95 % of the highest throughput.
    """
    if not any(trial.facts.labelled_best for trial in run.trials):
        return
    known = [(case_id, case, _rated(figures(trials[0]).values), trials) for case_id, case, trials in sound(run)]
    for case_id, _, mine, trials in known:
        for what in ("throughput", "efficiency"):
            if what not in trials[0].facts.labelled_best or what not in mine:
                continue
            rivals = [(values[what], other) for _, other, values, _ in known if what in values]
            most, best = max(rivals, key=lambda rival: rival[0])
            if mine[what] < (1.0 - _CHOICE_TOLERANCE) * most:
                size = str(best.configuration.get("batch_size"))
                told: Values = {"labelled": mine[what], "batch_size": size, "best": most, "top": _TOP}
                yield Finding("wrong_choice", Severity.WARNING, case_id, told, what)


def _rated(values: Mapping[str, float]) -> dict[str, float]:
    rate, held = values.get("throughput"), next((values[m] for m in _MEMORIES if values.get(m)), None)
    found = {} if rate is None else {"throughput": rate}
    return {**found, "efficiency": rate / (held / 1e9)} if rate is not None and held else found

"""A throughput that is not items over time: volumes counted twice, batches for items, means of rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean

from torchstone.core.figures import raw
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.claim import RATE_UNCLEAR, claims, is_imported
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.units import percent, quantity
from torchstone.plugins.checks._cases import sound, windows
from torchstone.plugins.protocols import Check

TOLERANCE = 0.02
_LOOSE = 0.5  # a rate may be so much below the steps' own: what lies between steps is in the one and not in the other
_EXACT = 0.002  # half of a rate, as two batches counted once make it; what lies between steps is seldom just as much
_PLAIN = 1.2  # beyond this factor a known mistake explains it, or none


class WrongRate:
    """Fires where a claimed throughput is not the items over the time of the same file, and names the likely mistake.

    Rates are total items over total time; their mean over steps is higher by about the squared coefficient of
    variation (Jensen's inequality; SuperBench's model_base.py, NVIDIA/DeepLearningExamples#1264).
    """

    describes = "a reported throughput that is not items divided by time"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding a Case: an error where a mistake that is known explains the factor, else a warning."""
        own = not is_imported(run) and run.head.procedure.isolation != "inline"  # a user's loop counts as it likes
        for case_id, case, trials in sound(run):
            found = next((seen for trial in trials if (seen := _wrong(case, trial)) is not None), None)
            advice = "use total items divided by total time, as torchstone does where the file has step times"
            if found is None and own:
                found = next((seen for trial in trials if (seen := _volume(case, trial)) is not None), None)
                advice = "check whether a batch was cut after running out of memory; items are per step and device"
            if found is not None:
                yield Finding("wrong_rate", found[0], found[1], advice, case_id)


def _wrong(case: Case, trial: Trial) -> tuple[Severity, str] | None:
    claimed = claims(trial)
    said = claimed.get("throughput", 0.0)
    if trial.facts.get(RATE_UNCLEAR) is True:
        return None
    for what, rate, exact in _right(case, trial, claimed):
        if not (said > 0.0 and rate > 0.0 and math.isfinite(said * rate)):
            continue
        ratio = said / rate
        halved = abs(2.0 * ratio - 1.0) <= _EXACT and _mistake(case, trial, claimed, ratio) is not None
        if (1.0 - TOLERANCE if exact else _LOOSE) <= ratio <= 1.0 + TOLERANCE and not halved:
            return None
        told = f"reported throughput is {quantity(said, 'items/s')}, but {what} is {quantity(rate, 'items/s')}"
        if max(ratio, 1.0 / ratio) > _PLAIN and (why := _mistake(case, trial, claimed, ratio)) is not None:
            return Severity.ERROR, f"{told}: {why}"
        if ratio > 1.0 and _is_mean_of_rates(trial, claimed, rate, said):
            return Severity.WARNING, f"{told}: it is the mean of per-step rates"
        factor = f"{ratio:.3g} times as much" if ratio > 1.0 else f"{percent(ratio)} of it"
        return Severity.WARNING, f"{told}: {factor}"
    return None


def _volume(case: Case, trial: Trial) -> tuple[Severity, str] | None:
    """Compare the items of a step with the batch that its Case asks for: an allocator that gave in, a wrong count."""
    items, asked, there = raw(trial, "items"), _items_a_step(case), trial.facts.get("dataset_items")
    if not items or asked is None or trial.facts.get("unreadable_items"):
        return None
    most = max(items) * case.placement.devices  # the last batch of an epoch may be short
    if most == asked or (most < asked and isinstance(there, int) and there < asked):
        return None
    return Severity.ERROR, f"a step processed {most:g} items, but its case has {asked:g}"


def _right(case: Case, trial: Trial, claimed: Mapping[str, float]) -> Iterator[tuple[str, float, bool]]:
    """Yield (from what, items/s, whether the rate may not be lower either), the surest first."""
    items, steps_s = sum(raw(trial, "items")), sum(t for _, each in windows(trial) for t in each)
    if items > 0.0 and steps_s > 0.0:
        yield f"{items:.0f} items in {quantity(steps_s, 's')}", items / steps_s, False
    total_items, total_s = claimed.get("total_items", 0.0), claimed.get("total_time_s", 0.0)
    if total_items > 0.0 and total_s > 0.0:
        yield f"{total_items:.0f} items in {quantity(total_s, 's')}", total_items / total_s, True
    step_s = claimed.get("step_time_mean") or claimed.get("latency_per_batch_mean_s") or claimed.get("anatomy_step_s")
    if step_s and (size := claimed.get("items_per_step") or _items_a_step(case)):
        yield f"{size:.0f} items in {quantity(step_s, 's')}", size / step_s, False


def _items_a_step(case: Case) -> float | None:
    size, pulls = case.configuration.get("batch_size"), case.configuration.get("grad_accumulation", 1)
    if not isinstance(size, int | float) or not isinstance(pulls, int | float):
        return None
    return size * case.placement.devices * (pulls if case.workload.task == Task.TRAIN else 1)


def _mistake(case: Case, trial: Trial, claimed: Mapping[str, float], ratio: float) -> str | None:
    steps = float(sum(len(times) for _, times in windows(trial)) or claimed.get("steps", 0.0))
    size, pulls = case.configuration.get("batch_size"), case.configuration.get("grad_accumulation")
    tokens, made = (case.configuration.get(axis) for axis in ("sequence_length", "new_tokens"))
    factors = [
        (steps, f"the items of all {steps:.0f} steps were divided by the time of one step"),
        (size, "the batch size counted twice"), (_over(size), "batches were counted instead of items"),
        (case.placement.devices, "devices were counted twice"),
        (_over(case.placement.devices), "only one of several devices was counted"),
        (pulls, "accumulated batches were counted twice"), (_over(pulls), "accumulated batches were counted once"),
        (tokens, "tokens were counted instead of sequences"), (made, "tokens were counted instead of texts"),
        (made - 1 if isinstance(made, int) else None, "generated tokens were counted instead of texts"),
        (1e3, "milliseconds were read as seconds"), (1e-3, "seconds were read as milliseconds"),
        (60.0, "it is a rate per minute"), (3600.0, "it is a rate per hour"),
        (1e6, "microseconds were read as seconds"),
    ]  # fmt: skip
    for factor, why in factors:
        if isinstance(factor, int | float) and factor > 0.0 and abs(ratio / factor - 1.0) <= TOLERANCE:
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
    return bool(mean and spread and abs(rate * (1.0 + (spread / mean) ** 2) / said - 1.0) < TOLERANCE)


PLUGIN: Check = WrongRate()

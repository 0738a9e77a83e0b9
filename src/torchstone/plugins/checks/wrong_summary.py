"""A summary that does not follow from the raw values beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean

from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import sound, windows
from torchstone.plugins.protocols import Check

TOLERANCE = 0.005
_FACTORS = {
    1e3: "milliseconds and seconds were mixed up", 1e6: "microseconds and seconds were mixed up",
    60.0: "minutes and seconds were mixed up", 1e9: "nanoseconds and seconds were mixed up",
}  # fmt: skip
_SHARES = {"p50": 0.5, "p90": 0.90, "p95": 0.95, "p99": 0.99}


class WrongSummary:
    """Fires where a claimed mean, percentile, deviation or total is not that of the steps that the file holds."""

    describes = "a summary that contradicts its own raw values"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding for each wrong figure of a Case: an error where a known mistake explains it."""
        for case_id, _, trials in sound(run):
            seen = dict.fromkeys(found for trial in trials for found in _wrong(trial))
            for severity, message in seen:
                advice = "use the raw values, from which torchstone computes its own figures"
                yield Finding("wrong_summary", severity, message, advice, case_id)


def _wrong(trial: Trial) -> Iterator[tuple[Severity, str]]:
    claimed = claims(trial)
    for name, times in windows(trial):
        words = "latency_per_batch_{}_s" if name == "latency" else "step_time_{}"
        said = {word: claimed[key] for word in (*_SHARES, "mean", "std", "min", "max")
                if (key := words.format(word)) in claimed}  # fmt: skip
        if "total_time_s" in claimed and sum(n == name for n, _ in windows(trial)) == 1:
            said["total"] = claimed["total_time_s"]
        if times and all(map(math.isfinite, times)):
            yield from _compared(said, times, trial.values("step_time_s", Stage.WARMUP))


def _compared(
    said: Mapping[str, float], times: tuple[float, ...], warmup: tuple[float, ...]
) -> Iterator[tuple[Severity, str]]:
    ordered = sorted(times)
    for word, value in said.items():
        low, high = _allowed(word, ordered)
        if low * (1.0 - TOLERANCE) <= value <= high * (1.0 + TOLERANCE) or value == 0.0:
            continue  # a 0 is another check's
        why = _explained(word, value, low, times, warmup)
        found = f"the {word} of {len(times)} steps is reported as {quantity(value, 's')}, but is {quantity(low, 's')}"
        if why is not None:
            yield Severity.ERROR, f"{found}: {why}"
        elif word != "total" or value < low:  # a total may hold more than the steps
            yield Severity.WARNING, found


def _allowed(word: str, ordered: list[float]) -> tuple[float, float]:
    """Return from where to where a figure may lie: definitions of quantiles and of the deviation differ."""
    n = len(ordered)
    if word in _SHARES:
        place = _SHARES[word] * (n - 1)
        return ordered[max(0, math.floor(place) - 1)], ordered[min(n - 1, math.ceil(place) + 1)]
    mean = fmean(ordered)
    squares = math.fsum((v - mean) ** 2 for v in ordered)
    exact = {
        "mean": (mean, mean), "min": (ordered[0], ordered[0]), "max": (ordered[-1], ordered[-1]),
        "total": (math.fsum(ordered), math.fsum(ordered)),
        "std": (math.sqrt(squares / n), math.sqrt(squares / max(1, n - 1))),
    }  # fmt: skip
    return exact[word]


def _explained(
    word: str, value: float, right: float, times: tuple[float, ...], warmup: tuple[float, ...]
) -> str | None:
    for factor, why in _FACTORS.items():
        if right > 0.0 and any(abs(value / right / f - 1.0) < 2.0 * TOLERANCE for f in (factor, 1.0 / factor)):
            return why
    if word == "std" and right > 0.0 and abs(value * math.sqrt(len(times)) / right - 1.0) < 0.1:
        return "that is the standard error of the mean"
    if word == "mean" and warmup and abs(fmean((*warmup, *times)) / value - 1.0) < TOLERANCE:
        return "it includes the warm-up steps"
    return None


PLUGIN: Check = WrongSummary()

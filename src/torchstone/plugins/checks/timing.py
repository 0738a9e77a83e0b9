"""Were steps timed correctly: synchronised, by a clock fine enough, in phases that sum to them, and not copied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import fmean, median

from torchstone.core.figures import ANATOMY_STEP, PHASE, figures, raw
from torchstone.core.messages import Value, Values
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.metric import FIGURES, REST, Unit
from torchstone.core.schema.run import Run, is_imported
from torchstone.core.schema.trial import Measurement, Stage, Trial
from torchstone.plugins.checks._cases import (
    ASYNCHRONOUS,
    busy,
    here_or_there,
    of_their_work,
    once,
    peak_of,
    setting,
    sound,
    windows,
)
from torchstone.plugins.protocols import check

# ── not synchronised ────────────────────────────────────────────────────────────────────────────────────────

_MISSING = 0.6  # steps and waits for data must make up so much of their window
_STEPS, _LEAST_S = 5, 0.02  # a window of a few short steps may be mostly what the loop itself takes
_FEWEST = 8
_SWALLOWED = 0.5  # of all the time, outside the typical step: only a few steps wait for the device
_WAITING = 0.2  # share of a window above which bursts of a loader make steps uneven
_FASTER = 3.0  # no overlap makes a step so much faster than one that is waited for: host and device halve it at best
_LONG_S = 1e-3  # of shorter steps, waiting itself is a good part
_QUEUED = 3  # launches: chance makes one step so fast, and not the first three
_SIZES, _SPAN, _EQUAL = 3, 64, 0.1
_AT_WORK = 0.5  # of the dense peak: a step that launches most of the time has kernels too small for it


@check("steps timed before the device had finished")
def not_synchronised(run: Run) -> Iterator[Finding]:
    """Fire where steps leave most of their window unaccounted for, or wait for the device in a few of them only.

    What `time.time()` around a launch measures is the launch. It shows where somebody waits after all: at the end of
    the window, in a step with a print of the loss, in the warm-up. It is an error where steps and window contradict
    each other.
    """
    plateaus = {one.subject: one for one in _plateaus(run)} if is_imported(run) else {}
    for case_id, case, trials in sound(run):
        signs = [sign for trial in trials if (sign := next(_signs(case_id, case, trial), None)) is not None]
        sure = [sign for sign in signs if sign.severity == Severity.ERROR]
        found = sure[0] if sure else signs[0] if len(signs) > len(trials) / 2 else None  # others may disturb one
        if (found := found or plateaus.get(case_id)) is not None:
            yield found


def _sign(severity: Severity, case_id: str, reason: str, values: Mapping[str, Value]) -> Finding:
    return Finding("not_synchronised", severity, case_id, values, reason)


def _signs(case_id: str, case: Case, trial: Trial) -> Iterator[Finding]:
    for name, times in windows(trial):
        window_s = sum(trial.values("window_time_s", window=name))
        waits_s = sum(trial.values("data_wait_s", window=name)) if name == "latency" else 0.0
        missing_s = window_s - sum(times) - waits_s
        if len(times) >= _STEPS and missing_s > max(_LEAST_S, (1.0 - _MISSING) * window_s):
            reason = "device_works" if case.placement.device in ASYNCHRONOUS else "no_step"
            yield _sign(Severity.ERROR, case_id, reason, {"window": name, "sum": sum(times), "span": window_s})
    if case.placement.device not in ASYNCHRONOUS:
        return
    for reason, values in (*_a_few_wait(trial), *_queue_fills(trial), *_faster_than_warm_up(trial)):
        yield _sign(Severity.WARNING, case_id, reason, values)


def _a_few_wait(trial: Trial) -> Iterator[tuple[str, Mapping[str, Value]]]:
    whole = dict(windows(trial))
    for name, times in busy(trial):
        total_s = sum(times)
        if len(times) < _FEWEST or total_s < (1.0 - _WAITING) * sum(whole[name]):
            continue
        typical_s = median(times)
        long = [t > typical_s / _SWALLOWED for t in times]  # with so little in the typical step, there are some
        if typical_s * len(times) < _SWALLOWED * total_s and not of_their_work(trial, name, long):
            yield "few_wait", {"window": name, "typical": typical_s, "steps": len(times), "sum": total_s}


def _queue_fills(trial: Trial) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Look for launches that return at once until the device's queue is full, and then wait for a place in it."""
    for name, times in busy(trial):
        if len(times) >= 2 * _FEWEST:
            typical_s = median(times)
            first = next((place for place, t in enumerate(times) if t * _FASTER > typical_s), len(times))
            later = [place >= first for place in range(len(times))]
            if _QUEUED <= first < len(times) and not of_their_work(trial, name, later):
                yield "queue", {"window": name, "steps": first, "first": median(times[:first]), "typical": typical_s}


def _faster_than_warm_up(trial: Trial) -> Iterator[tuple[str, Mapping[str, Value]]]:
    warmup = trial.values("step_time_s", Stage.WARMUP)
    steps = [t for name, times in windows(trial) if name != "latency" for t in times]
    if len(warmup) < 4 or not steps:
        return
    waited_s, step_s = min(warmup[len(warmup) // 2 :]), median(steps)
    if waited_s > max(_FASTER * step_s, _LONG_S):
        yield "warmup", {"step": step_s, "waited": waited_s}


def _plateaus(run: Run) -> Iterator[Finding]:
    """Yield one of each Case whose time is the same whatever the batch: a launch takes as long for 1 item as for 64.

    So do steps of a small model that are waited for, since launching them takes longest. Where the largest batch would
    keep the device at work all the time at a rate that few kernels reach, the time is not that of the work.
    """
    alike: dict[tuple[object, ...], list[tuple[int, float, str, float]]] = {}
    for case_id, case, trials in sound(run):
        size, values = case.configuration.get("batch_size"), figures(trials[0]).values
        step_s = values.get("step_time_mean") or values.get("latency_per_batch_mean_s")
        if case.placement.device in ASYNCHRONOUS and isinstance(size, int) and step_s:
            rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k != "batch_size"))
            key = (case.workload.task, case.workload.model, case.workload.data, str(case.placement), rest)
            rate = values.get("achieved_flops") or values.get("flops_per_step", 0.0) / step_s
            peak = peak_of(run, case)
            share = rate / (peak.value * case.placement.devices) if peak is not None else 0.0
            alike.setdefault(key, []).append((size, step_s, case_id, share))
    for found in alike.values():
        sizes, times = [size for size, _, _, _ in found], [step_s for _, step_s, _, _ in found]
        if len(set(sizes)) >= _SIZES and max(sizes) >= _SPAN * min(sizes) and max(times) < (1.0 + _EQUAL) * min(times):
            sure = max(share for _, _, _, share in found) > _AT_WORK
            severity, reason = (Severity.WARNING, "launch") if sure else (Severity.INFO, "launch_perhaps")
            told = {"smallest": min(sizes), "largest": max(sizes), "within": _EQUAL}
            yield from (_sign(severity, case_id, reason, told) for _, _, case_id, _ in found)


# ── a coarse clock ──────────────────────────────────────────────────────────────────────────────────────────

LEAST_TICKS = 100


@check("steps too short for the clock that timed them")
def timer_too_coarse(run: Run) -> Iterator[Finding]:
    """Fire where a window's median step is under 100 times the fact `clock_resolution_s`."""
    for case_id, case, trials in sound(run):
        coarse = [found for trial in trials for found in _coarse(trial)]
        if coarse:
            step_s, tick_s = min(coarse)
            values: Values = {"step": step_s, "tick": tick_s}
            size, more = case.configuration.get("batch_size"), "more_work_there"
            if isinstance(size, int):
                values["setting"], more = setting(run, "batch_size", 16 * size), "more_work"
            remedies = ("use_throughput", more)
            yield Finding("timer_too_coarse", Severity.WARNING, case_id, values, remedies=remedies)


def _coarse(trial: Trial) -> Iterator[tuple[float, float]]:
    tick_s = trial.facts.clock_resolution_s
    if tick_s is None:
        return
    for _, times in windows(trial):
        if times and median(times) < LEAST_TICKS * tick_s:
            yield median(times), tick_s


# ── impossible times ────────────────────────────────────────────────────────────────────────────────────────

TOLERANCE = 0.01
_POSITIVE = ("step_time_s", "latency_s", "window_time_s")
_NEVER_NEGATIVE = (Unit.SECOND, Unit.ITEM_RATE, Unit.TOKEN_RATE, Unit.BYTE, Unit.JOULE, Unit.WATT)
_COUNTERS = ("device_energy_j", "package_energy_j")


@check("negative times, steps longer than their window, or counters that decrease")
def impossible(run: Run) -> Iterator[Finding]:
    """Fire on times that are no positive numbers, on steps longer than their window, on clocks that run backwards."""
    remedies = (here_or_there(run, "report"),)
    for case_id, _, trials in sound(run):
        yield from once(
            Finding("impossible", Severity.ERROR, case_id, {**values, "run": run.head.run_id}, reason, remedies)
            for trial in trials
            for reason, values in _contradictions(trial)
        )


def _contradictions(trial: Trial) -> Iterator[tuple[str, Mapping[str, Value]]]:
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.phase is None and m.rank == 0]
    for m in steady:
        if m.metric in _POSITIVE and not all(0.0 < v < float("inf") for v in m.values):
            yield "time", {"figure": m.metric, "window": m.window or "steady"}
        if m.metric == "window_span_s" and len(m.values) == 2 and m.values[1] <= m.values[0]:
            yield "ended_before", {"window": m.window or "steady"}
    yield from _too_long(steady)
    for series in trial.series:
        if any(later < sooner for sooner, later in pairwise(series.at_s)):
            yield "timestamps", {"figure": series.metric}
        if series.metric in _COUNTERS and any(later < sooner for sooner, later in pairwise(series.values)):
            yield "counter", {"figure": series.metric}
    for name, value in trial.facts.claimed.items():
        if name in FIGURES and FIGURES[name].unit in _NEVER_NEGATIVE and not 0.0 <= value < float("inf"):
            yield "value", {"figure": name, "value": f"{value:g}"}


def _too_long(steady: list[Measurement]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    whole_s = {m.window: sum(m.values) for m in steady if m.metric == "window_time_s"}
    for m in steady:
        window_s = whole_s.get(m.window)
        if m.metric in ("step_time_s", "latency_s") and window_s is not None:
            total_s = sum(m.values)
            if total_s > (1.0 + TOLERANCE) * window_s:
                yield "too_long", {"window": m.window or "steady", "sum": total_s, "span": window_s}


# ── phases ──────────────────────────────────────────────────────────────────────────────────────────────────

_SUM_TOLERANCE = 1e-3
_ROUNDING_S = 25e-6  # four phases printed in ms with two decimals
_APART = 3.0
_MOST = 0.6  # of a step, outside its phases


@check("phases that do not sum to the step time")
def phases_differ(run: Run) -> Iterator[Finding]:
    """Fire where phases do not sum to their step, and where the dissected step is not the step that was measured."""
    remedies = ("phases_there" if is_imported(run) else "no_phases",)
    for case_id, case, trials in sound(run):
        seen = once(
            Finding("phases_differ", Severity.WARNING, case_id, values, reason, remedies)
            for trial in trials
            for reason, values in _of_phases(case, trial)
        )
        yield from list(seen)[:2]


def _of_phases(case: Case, trial: Trial) -> Iterator[tuple[str, Mapping[str, Value]]]:
    cut, whole, claimed = raw(trial, "anatomy_step_time_s"), raw(trial, "step_time_s", False), trial.facts.claimed
    said_s = claimed.get(ANATOMY_STEP, claimed.get("step_time_mean"))
    parts, step_s = _parts(trial, claimed), fmean(cut) if cut else said_s
    if parts and step_s is not None and math.isfinite(step_s):
        yield from _sum(case, parts, step_s)
    if case.placement.device in ASYNCHRONOUS and cut and whole and median(whole) * _APART < min(cut):
        yield "window", {"split": min(cut), "step": median(whole)}


def _parts(trial: Trial, claimed: Mapping[str, float]) -> dict[str, float]:
    """Return the mean time of each phase, measured or claimed."""
    said = {n.removeprefix(PHASE).removesuffix("_s"): v for n, v in claimed.items() if n.startswith(PHASE)}
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.rank == 0 and m.values]
    return said | {m.phase: fmean(m.values) for m in steady if m.metric == "phase_time_s" and m.phase}


def _sum(case: Case, parts: Mapping[str, float], step_s: float) -> Iterator[tuple[str, Mapping[str, Value]]]:
    total_s = math.fsum(parts.values())
    off = total_s - step_s
    training = case.workload.task == Task.TRAIN and {"forward", "backward"} <= parts.keys()
    if training and not {"optimizer", "rest"} & parts.keys() and off > -0.005 * step_s:
        yield "optimizer", {"phases": tuple(parts)}
    if case.placement.device in ASYNCHRONOUS and len(parts) > 1 and parts.get(REST, 0.0) > _MOST * step_s:
        yield "rest", {"share": parts[REST] / step_s}
    if abs(off) > max(_SUM_TOLERANCE * step_s, _ROUNDING_S):
        yield "sum", {"phases": tuple(parts), "sum": total_s, "step": step_s}


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────

_STEPS_OF_A_COPY = 20  # of so many steps, timed to the nanosecond, no two sequences are equal
_FIGURES = 3
_COUNTS = ("steps", "total_items", "items_per_step")


@check("trials or cases that are copies of one another, or steps that are all equal")
def copied_values(run: Run) -> Iterator[Finding]:
    """Fire where the steps of one trial are those of another, a warning where all steps of a window are equal."""
    first: dict[tuple[float, ...], tuple[str, Case, str]] = {}
    claimed: dict[tuple[tuple[str, float], ...], tuple[str, Case, str]] = {}
    for case_id, case, trials in sound(run):
        found: dict[Severity, tuple[str, Mapping[str, Value]]] = {}
        for trial in trials:
            for name, times in windows(trial):
                if len(times) < _STEPS_OF_A_COPY:
                    continue
                if len(set(times)) == 1:
                    found[Severity.WARNING] = ("equal", {"steps": len(times), "step": times[0]})
                    continue
                mine = (case_id, case, trial.trial_id + name)
                if (twin := first.setdefault(times, mine)) != mine:
                    whose, its = _whose(case, twin[1])
                    found[Severity.ERROR] = (whose, {"steps": len(times), **its})
            said = tuple(sorted((k, v) for k, v in trial.facts.claimed.items() if v and k not in _COUNTS))
            if len(said) >= _FIGURES:
                own = (case_id, case, trial.trial_id)
                if (twin := claimed.setdefault(said, own)) != own:
                    whose, its = _whose(case, twin[1])
                    found[Severity.WARNING] = (f"figures_{whose}", its)
        for severity, (reason, values) in found.items():
            yield Finding("copied_values", severity, case_id, values, reason)


def _whose(case: Case, other: Case) -> tuple[str, Values]:
    """Return whose values those are: the settings of the other Case in which the two differ."""
    if case == other:
        return "trial", {}
    mine = case.configuration
    differing = tuple(f"{name}={value}" for name, value in other.configuration.items() if value != mine.get(name))
    return "case", {"settings": differing[:3] or (other.workload.model,)}

"""Steps timed without synchronisation: the time to launch a step instead of the step's."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from torchstone.core.figures import figures
from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.units import percent, quantity
from torchstone.plugins.checks._cases import ASYNCHRONOUS, busy, of_their_work, sound, windows
from torchstone.plugins.checks._peak import peak_of
from torchstone.plugins.protocols import Check

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


class NotSynchronised:
    """Fires where steps leave most of their window unaccounted for, or wait for the device in a few of them only.

    What `time.time()` around a launch measures is the launch. It shows where somebody waits after all: at the end of
    the window, in a step with a print of the loss, in the warm-up.
    """

    describes = "steps timed before the device had finished"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding a Case, with the first sign of it: an error where steps and window contradict each other."""
        plateaus = dict(_plateaus(run)) if is_imported(run) else {}
        advice = "synchronise before every reading of the clock, or time with the device's own events"
        for case_id, case, trials in sound(run):
            signs = [sign for trial in trials if (sign := next(_signs(case, trial), None)) is not None]
            sure = [sign for sign in signs if sign[0] == Severity.ERROR]
            found = sure[0] if sure else signs[0] if len(signs) > len(trials) / 2 else None  # others may disturb one
            if found is None:
                found = plateaus.get(case_id)
            if found is not None:
                yield Finding("not_synchronised", found[0], found[1], advice, case_id)


def _signs(case: Case, trial: Trial) -> Iterator[tuple[Severity, str]]:
    for name, times in windows(trial):
        window_s = sum(trial.values("window_time_s", window=name))
        waits_s = sum(trial.values("data_wait_s", window=name)) if name == "latency" else 0.0
        missing_s = window_s - sum(times) - waits_s
        if len(times) >= _STEPS and missing_s > max(_LEAST_S, (1.0 - _MISSING) * window_s):
            told = f"the steps of the {name} window sum to {quantity(sum(times), 's')} of its {quantity(window_s, 's')}"
            behind = case.placement.device in ASYNCHRONOUS
            why = "the device was still working in the rest" if behind else "the rest belongs to no step"
            yield Severity.ERROR, f"{told}: {why}"
    if case.placement.device not in ASYNCHRONOUS:
        return
    yield from _a_few_wait(trial)
    yield from _queue_fills(trial)
    yield from _faster_than_warm_up(trial)


def _a_few_wait(trial: Trial) -> Iterator[tuple[Severity, str]]:
    whole = dict(windows(trial))
    for name, times in busy(trial):
        total_s = sum(times)
        if len(times) < _FEWEST or total_s < (1.0 - _WAITING) * sum(whole[name]):
            continue
        typical_s = median(times)
        long = [t > typical_s / _SWALLOWED for t in times]  # with so little in the typical step, there are some
        if typical_s * len(times) < _SWALLOWED * total_s and not of_their_work(trial, name, long):
            told = f"a step of the {name} window takes {quantity(typical_s, 's')}, but all {len(times)} take"
            yield Severity.WARNING, f"{told} {quantity(total_s, 's')}: only a few steps wait for the device"


def _queue_fills(trial: Trial) -> Iterator[tuple[Severity, str]]:
    """Look for launches that return at once until the device's queue is full, and then wait for a place in it."""
    for name, times in busy(trial):
        if len(times) >= 2 * _FEWEST:
            typical_s = median(times)
            first = next((place for place, t in enumerate(times) if t * _FASTER > typical_s), len(times))
            later = [place >= first for place in range(len(times))]
            if _QUEUED <= first < len(times) and not of_their_work(trial, name, later):
                told = f"the first {first} steps of the {name} window take {quantity(median(times[:first]), 's')}"
                yield Severity.WARNING, f"{told}, all others {quantity(typical_s, 's')}: these were only launched"


def _faster_than_warm_up(trial: Trial) -> Iterator[tuple[Severity, str]]:
    warmup = trial.values("step_time_s", Stage.WARMUP)
    steps = [t for name, times in windows(trial) if name != "latency" for t in times]
    if len(warmup) < 4 or not steps:
        return
    waited_s, step_s = min(warmup[len(warmup) // 2 :]), median(steps)
    if waited_s > max(_FASTER * step_s, _LONG_S):
        told = f"a step takes {quantity(step_s, 's')}, but {quantity(waited_s, 's')} with synchronisation"
        yield Severity.WARNING, told


def _plateaus(run: Run) -> Iterator[tuple[str, tuple[Severity, str]]]:
    """Yield the Cases whose time is the same whatever the batch: a launch takes as long for 1 item as for 64.

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
            told = f"batches of {min(sizes)} and of {max(sizes)} take the same time, within {percent(_EQUAL)}"
            sure = max(share for _, _, _, share in found) > _AT_WORK
            severity, why = (Severity.WARNING, "is") if sure else (Severity.INFO, "may be")
            yield from ((case_id, (severity, f"{told}: it {why} the launch time")) for _, _, case_id, _ in found)


PLUGIN: Check = NotSynchronised()

"""Was there memory enough: paging, an allocator at its limit, a leak, and none left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from torchstone.core.figures import raw
from torchstone.core.messages import Values
from torchstone.core.schema.axis import DATALOADER_AXES
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Reason, Series, Status, Trial
from torchstone.core.stats.readings import increase, spans_s
from torchstone.core.stats.steady import rising, sen_slope
from torchstone.plugins.checks._cases import less_memory, setting, sound, trials_by_case, windows
from torchstone.plugins.protocols import check

# ── swapping ────────────────────────────────────────────────────────────────────────────────────────────────

_FAULTS, _A_STEP = 20, 0.1  # a library's page that is first touched in the window is no thrashing
_SWAPPED_BYTES = 64 << 20


@check("memory paged in from disk during the steady windows")
def swapping(run: Run) -> Iterator[Finding]:
    """Fire on major page faults (each waits for the disk) in more than a tenth of the steps, and on swapped pages."""
    for case_id, case, trials in sound(run):
        faults = max((_faults(t) for t in trials), default=0)
        swapped = max((_swapped(t) for t in trials), default=0.0)
        if faults or swapped:
            remedy, values = less_memory(case, run)
            reason = "both" if faults and swapped else "faults" if faults else "swapped"
            seen: Values = {"faults": faults, "swapped": swapped, **values}
            remedies = ("stop_memory_users", remedy)
            yield Finding("swapping", Severity.WARNING, case_id, seen, reason, remedies)


def _faults(trial: Trial) -> int:
    faults = sum(raw(trial, "major_faults"))
    steps = len(raw(trial, "step_time_s")) + len(raw(trial, "latency_s"))
    return int(faults) if faults > max(_FAULTS, _A_STEP * steps) else 0


def _swapped(trial: Trial) -> float:
    spans = spans_s(trial)
    moved = [
        sum(increase(s.at_s, s.values, begin, end) or 0.0 for begin, end in spans)
        for s in trial.series
        if s.metric == "host_swapped_bytes"
    ]
    return most if (most := max(moved, default=0.0)) > _SWAPPED_BYTES else 0.0


# ── an allocator that retried ───────────────────────────────────────────────────────────────────────────────


@check("a device allocator that freed its cache and retried: the case only just fits in memory")
def allocator_retries(run: Run) -> Iterator[Finding]:
    """Fire on a trial that ended well but whose device allocator had to retry.

    Each retry waits for the device, frees every cached block and asks the driver again. MosaicML's Composer takes
    retries in a row for thrashing and shrinks the microbatch (`Trainer`, `device_train_microbatch_size="auto"`).
    """
    expands = any("expandable_segments:True" in (value or "") for value in run.head.machine.settings.values())
    for case_id, case, trials in sound(run):
        most = max((sum(raw(t, "allocator_retries")) for t in trials), default=0.0)
        if most > 0.0:
            remedy, values = less_memory(case, run)
            remedies = (remedy,) if expands else (remedy, "expandable")
            values["retries"] = round(most)
            yield Finding("allocator_retries", Severity.WARNING, case_id, values, remedies=remedies)


# ── out of memory ───────────────────────────────────────────────────────────────────────────────────────────

_NO_MEMORY = ("grad_accumulation", "learning_rate", *DATALOADER_AXES)
_OF_A_LOADER = (Reason.IN_LOADER, Reason.LOADER_KILLED)


@check("a trial that ran out of memory, or was skipped because it was predicted to")
def out_of_memory(run: Run) -> Iterator[Finding]:
    """Fire once a Case on a trial that ran out of memory, or that was skipped because it would have."""
    every = list(trials_by_case(run))
    short = [(case_id, case, trial) for case_id, case, trials in every if (trial := _short(trials)) is not None]
    if not short:
        return
    fitted: dict[tuple[object, ...], dict[int, float]] = {}
    for _, case, trials in every:
        size = case.configuration.get("batch_size")
        if isinstance(size, int) and (sound_ones := [t for t in trials if t.outcome.status == Status.OK]):
            peak = max((max(raw(t, "peak_reserved_bytes"), default=0.0) for t in sound_ones), default=0.0)
            fitted.setdefault(_but_for_size(case), {})[size] = peak
    for case_id, case, trial in short:
        size = case.configuration.get("batch_size")
        sizes = {other: peak for other, peak in fitted.get(_but_for_size(case), {}).items() if other != size}
        alike = [other for _, other, _ in short if _but_for_size(other) == _but_for_size(case)]
        too_large = [n for one in alike if isinstance(n := one.configuration.get("batch_size"), int)]
        told = ["case"] if size is None else []
        told += ["skipped"] if trial.outcome.status == Status.SKIPPED else []
        told += ["fitted"] if sizes and size is not None else []
        smaller = _smaller_batch(min(too_large), sizes, _memory_bytes(case, run)) if too_large else None
        remedies, values = _more_room(case, trial, run, smaller)
        values |= {"batch_size": size, "why": trial.outcome.message, "fitted": max(sizes, default=None)}
        yield Finding("out_of_memory", Severity.WARNING, case_id, values, "_".join(told), remedies)


def _short(trials: tuple[Trial, ...]) -> Trial | None:
    """Return the first trial that ran out of memory, else the first that was skipped for want of it."""
    by_status = {t.outcome.status: t for t in reversed(trials)}
    if Status.TIMED_OUT in by_status or Status.UNSUPPORTED in by_status:
        by_status.pop(Status.SKIPPED, None)  # skipped for having ended so before
    return by_status.get(Status.OUT_OF_MEMORY) or by_status.get(Status.SKIPPED)


def _but_for_size(case: Case) -> tuple[object, ...]:
    """Return what two Cases share of which one tells what fits the other: in bf16, more does."""
    rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k not in _NO_MEMORY))
    return (str(case.workload.canonical()), str(case.placement), rest)


def _smaller_batch(too_large: int, fitted: Mapping[int, float], memory_bytes: float | None) -> int:
    """Return half of what is too large, or half of that, down to the largest that fitted.

    `fitted`: batch size → its peak in bytes, which grows linearly with it: by two of them, what will not fit is known.
    """
    most = max(fitted, default=0)
    smaller = too_large // 2
    if memory_bytes and len(fitted) > 1:
        first, second = sorted(fitted)[-2:]
        slope = max(0.0, (fitted[second] - fitted[first]) / (second - first))
        while smaller > most and fitted[second] + slope * (smaller - second) > memory_bytes:
            smaller //= 2
    return max(smaller, most)


def _memory_bytes(case: Case, run: Run) -> float | None:
    device = run.head.machine.device(case.placement.device, case.placement.index)
    return None if device is None or device.memory_bytes is None else float(device.memory_bytes)


def _more_room(case: Case, trial: Trial, run: Run, smaller: int | None) -> tuple[tuple[str, ...], Values]:
    remedy, values = less_memory(case, run, smaller)
    workers = case.configuration.get("num_workers")
    if trial.outcome.reason in _OF_A_LOADER and isinstance(workers, int) and workers > 1:
        return ("fewer_workers", remedy), {**values, "workers": setting(run, "num_workers", workers // 2)}
    return (remedy,), values


# ── a leak ──────────────────────────────────────────────────────────────────────────────────────────────────

FEWEST = 8  # readings in a window; under these no rise is significant
_MOST = 64  # medians of neighbours stand for more of them: the slopes of all pairs are compared
_SURE = 3.1  # standard deviations; one in a thousand without a trend
_LEAST_BYTES, _LEAST_SHARE = 16 << 20, 0.01  # over the window; less is the allocators' own business
_LASTING = 0.5  # what warms up slows down: the second half must rise at least so much of the first half's rate
_MEMORIES = ("rss_bytes", "device_memory_used_bytes")


@check("resident or device memory that grows over the steady window")
def leak(run: Run) -> Iterator[Finding]:
    """Fire where every trial's memory rises, significantly and to the end, over a steady window."""
    for case_id, _, trials in sound(run):
        for metric in _MEMORIES:
            found = [rise for trial in trials for rise in _rises(trial, metric)]
            if found and all(found):
                yield Finding("leak", Severity.WARNING, case_id, {"rise": 1000.0 * median(found)}, metric)


def _rises(trial: Trial, metric: str) -> Iterator[float]:
    """Yield for each window with enough readings how many bytes a step adds; 0 where memory does not rise."""
    series = next((s for s in trial.series if s.metric == metric and s.rank == 0), None)
    if series is None or (metric.startswith("device_") and trial.shared_device):
        return
    for name, times in windows(trial):
        span = trial.values("window_span_s", window=name)
        inside = _within(series, *span) if len(span) == 2 else []
        if len(inside) >= FEWEST and times:
            yield _rise(inside) * (span[1] - span[0]) / len(times)


def _rise(points: list[tuple[float, float]]) -> float:
    """Return the rise of (seconds, bytes) in bytes/s; 0 if it is none."""
    points = _thinned(points)
    at_s, values = [at for at, _ in points], [value for _, value in points]
    slope = sen_slope(at_s, values)
    if slope is None or slope <= 0.0 or rising(values) < _SURE:
        return 0.0
    if slope * (at_s[-1] - at_s[0]) < max(_LEAST_BYTES, _LEAST_SHARE * median(values)):
        return 0.0
    half = len(points) // 2
    early, late = sen_slope(at_s[:half], values[:half]), sen_slope(at_s[-half:], values[-half:])
    if early is None or late is None or late < _LASTING * max(early, slope):
        return 0.0
    return slope


def _within(series: Series, begin_s: float, end_s: float) -> list[tuple[float, float]]:
    return [(at, v) for at, v in zip(series.at_s, series.values, strict=True) if begin_s <= at <= end_s]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    width = -(-len(points) // _MOST)
    groups = [points[i : i + width] for i in range(0, len(points), width)]
    return [(median(at for at, _ in group), median(v for _, v in group)) for group in groups]

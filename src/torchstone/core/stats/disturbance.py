"""Which trials, and which parts of their windows, were disturbed by other work on the machine.

The rule is fixed before anything is measured and looks at evidence alone: who else used the CPU, how long the trial's
threads waited for a core, steal, an exhausted CPU quota, a stop signal, swapping, other processes on the device and
throttling. It never looks at how long a step took, so that leaving out whole trials biases no estimate: of the
trials it keeps, the values are those of an undisturbed machine (missing at random given the evidence; Little & Rubin,
Statistical Analysis with Missing Data, 1987, §1.3). NVBench leaves out samples of a throttled GPU in the same way.

Evidence is read every 0.1 s in a window. The interval between two readings is disturbed where others held, or our
threads waited for, a stated part of a core. (Threads that sleep often, as in a slow loader, wait for one another: what
they waited counts only where others used about as much.) A trial of one process on the CPU, with no more threads than
cores, leaves out the steps that overlap such intervals; it is disturbed as a whole where less than a quarter of a
window, or fewer than 3 of its steps, 2 in a row on average, are left. (While others compute, its windows go on:
UntilLeftAlone, execution/timing/stopping.py.) Every other trial (loader processes, several ranks, a device that runs
behind the host) has steps that wait for work done earlier: it is disturbed as a whole where more than 3 % of its
windows is. So is one whose few long steps cannot be cut where more than 10 % is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from torchstone.core.messages import DISTURBED, Values, filled
from torchstone.core.schema.trial import Disturbance, Disturber, Measurement, Series, Stage, Trial
from torchstone.core.stats.readings import gauge, increase, outside, processes_on_device

EVIDENCE_PERIOD_S = 0.1
TOLERATED_CORES = 0.15  # that other processes may hold, mean over the windows of a trial
_TOLERATED_SHARE = 0.05  # of all cores: on a machine with many, a busy one elsewhere disturbs nothing
_HELD_CORES = 0.35  # in one interval of 0.1 s: the kernel counts in ticks of 10 ms, so that ±0.2 is noise
_SHORT_S = 0.04  # at the ends of a window intervals are shorter than 0.1 s
_WAITED_CORES = 0.1  # in one interval: counted in ns, 0.01 to 0.05 on a quiet machine
_OWN_WAITS = 1.25  # times what others used: a trial that waited more waited for its own threads
_WAITED_BESIDE = 0.05  # in an interval next to a disturbed one
_WAITED_SHARE = 0.05  # of the windows, of each of its threads, where own threads do not compete
_STEAL_SHARE, _THROTTLED_SHARE = 0.02, 0.05
_QUOTA_SHARE = 0.02
_SWAPPED_BYTES = 64 << 20
_MOST_DISTURBED = 0.03
_LEAST_LEFT, _LEAST_STEPS, _LEAST_IN_A_ROW = 0.25, 3, 2.0
# Of a window of two or three long steps, which cannot be cut: one interval of a quiet machine's daemons is 5 to 9 %.
_MOST_OF_LONG_STEPS = 0.1
_STEP_METRICS = ("step_time_s", "latency_s")
_PER_STEP = frozenset(
    {"step_time_s", "latency_s", "data_wait_s", "items", "tokens", "time_to_first_token_s", "time_per_output_token_s"}
)
_OFF_S = 0.05  # share by which the steps of a window may differ from its span, for their places in time to be known

Span = tuple[float, float]


def disturbance(trial: Trial, *, cores: int | None, threads: int | None, one_process: bool) -> Disturbance | None:
    """Return what disturbed the steady windows of a trial; None where nothing was watched.

    `cores`: logical cores it may use. `threads`: those that it computes with. `one_process`: it is one process on the
    CPU, so that its steps depend on nothing that was done earlier elsewhere.
    """
    spans = _windows(trial)
    whole = tuple(spans.values())
    evidence = _OtherWork(
        trial, whole, cores, watches_waits=one_process and cores is not None and (threads or 1) <= cores
    )
    if not spans or not evidence.is_there:
        return None
    parts = tuple(part for span in whole for part in evidence.disturbed_parts(span))
    share, held = min(1.0, _length(parts) / _length(whole)), evidence.cores_held(whole)
    if held is not None and cores is not None:
        held = min(held, float(cores))  # in a window of a few ms, one tick of the kernel's clock looks like more
    seen = evidence.causes_of(parts)
    can_be_cut = one_process and bool(parts) and _enough_left(trial, spans, parts)
    if can_be_cut and not evidence.over(tuple(outside(whole, parts))):
        return Disturbance(disturbed=False, share=share, causes=seen, left_out_s=parts, cores=held)
    over = evidence.over(whole)
    if over or share > (_MOST_OF_LONG_STEPS if one_process else _MOST_DISTURBED):
        causes = tuple(dict.fromkeys((*over, *seen)))
        return Disturbance(disturbed=True, share=1.0 if over else share, causes=causes, cores=held)
    return Disturbance(disturbed=False, share=share, cores=held)


def undisturbed_part(trial: Trial) -> Trial:
    """Return a trial with the steps left out that overlap its disturbed parts; itself where there are none."""
    if trial.disturbance is None or not trial.disturbance.left_out_s:
        return trial
    kept = {
        name: _steps_left(trial, name, span, trial.disturbance.left_out_s) for name, span in _windows(trial).items()
    }
    cut = (_cut(m, kept[m.window or ""], trial) if _is_cut(m, kept) else m for m in trial.measurements)
    return msgspec.structs.replace(trial, measurements=tuple(cut))


def _is_cut(m: Measurement, kept: dict[str, list[bool]]) -> bool:
    steps = len(kept.get(m.window or "", ())) if m.stage == Stage.STEADY and m.phase is None else 0
    return steps > 0 and (m.metric == "window_time_s" or (m.metric in _PER_STEP and len(m.values) == steps))


def _cut(m: Measurement, kept: Sequence[bool], trial: Trial) -> Measurement:
    if m.metric != "window_time_s":
        return msgspec.structs.replace(m, values=tuple(v for v, keep in zip(m.values, kept, strict=True) if keep))
    laps = _laps(trial, str(m.window))
    share = math.fsum(lap for lap, keep in zip(laps, kept, strict=True) if keep) / math.fsum(laps)
    return msgspec.structs.replace(m, values=tuple(v * share for v in m.values))


def _windows(trial: Trial) -> dict[str, Span]:
    """Return begin and end of each steady window by its name."""
    return {
        m.window or "": (m.values[0], m.values[1])
        for m in trial.measurements
        if m.metric == "window_span_s"
        and m.stage == Stage.STEADY
        and m.rank == 0
        and len(m.values) == 2
        and m.values[1] > m.values[0]
    }


def _laps(trial: Trial, window: str) -> tuple[float, ...]:
    """Return the time of each step of a window, the wait before a latency with it."""
    for metric in _STEP_METRICS:
        if laps := trial.values(metric, window=window):
            waits = trial.values("data_wait_s", window=window) if metric == "latency_s" else ()
            return tuple(a + b for a, b in zip(laps, waits, strict=True)) if len(waits) == len(laps) else laps
    return ()


def _steps_left(trial: Trial, window: str, span: Span, parts: Sequence[Span]) -> list[bool]:
    """Return for each step of a window whether no disturbed part overlaps it; none where their times are not known."""
    laps = _laps(trial, window)
    total = math.fsum(laps)
    if not laps or abs(total - (span[1] - span[0])) > _OFF_S * (span[1] - span[0]):
        return []
    own = sorted(part for part in parts if part[1] > span[0] and part[0] < span[1])
    kept, at_s = [], span[0]
    for lap in laps:
        end_s = at_s + lap
        kept.append(not any(begin < end_s and end > at_s for begin, end in own))
        at_s = end_s
    return kept


def _enough_left(trial: Trial, spans: dict[str, Span], parts: Sequence[Span]) -> bool:
    """Return whether each window keeps a quarter of its time and 3 steps without the parts, 2 in a row on average.

    A step that is longer than what lies between two disturbances can never be kept: of single steps the shorter ones
    would be chosen.
    """
    for name, (begin, end) in spans.items():
        kept = _steps_left(trial, name, (begin, end), parts)
        laps = _laps(trial, name)
        left_s = math.fsum(lap for lap, keep in zip(laps, kept, strict=False) if keep)
        rows = sum(keep and not before for before, keep in pairwise((False, *kept)))
        if sum(kept) < min(_LEAST_STEPS, len(laps)) or left_s < _LEAST_LEFT * (end - begin):
            return False
        if sum(kept) < _LEAST_IN_A_ROW * rows and len(laps) >= _LEAST_STEPS:
            return False
    return True


class _OtherWork:
    """What the Series of a trial tell of other work, interval by interval and as a whole."""

    def __init__(self, trial: Trial, spans: Sequence[Span], cores: int | None, *, watches_waits: bool) -> None:
        self._trial, self._cores = trial, cores or 1
        self._host, self._own = _series(trial, "host_busy_s"), _series(trial, "process_cpu_s")
        self._steal, self._quota = _series(trial, "host_steal_s"), _series(trial, "quota_wait_s")
        waits, others_s = _series(trial, "core_wait_s"), self._others(spans) or 0.0
        for_others = waited_for_others(self._total(waits, spans), others_s, _length(spans))
        self._waits = waits if watches_waits and for_others else None
        self._stopped = _series(trial, "process_stopped")
        self.is_there = self._host is not None and self._own is not None

    def disturbed_parts(self, span: Span) -> Iterator[Span]:
        """Yield the parts of a window in which others held its cores, neighbouring ones joined.

        A burst that begins shortly before an interval ends is seen in both: of its shorter part less is enough.
        """
        found: list[Span] = []
        spans = list(pairwise(_moments(self._host, span)))
        sure = [self._is_disturbed(begin, end) for begin, end in spans]
        for (begin, end), own, before, after in zip(spans, sure, [False, *sure], [*sure[1:], False], strict=False):
            if own or ((before or after) and self._waits_a_little(begin, end)):
                joined = found.pop()[0] if found and found[-1][1] == begin else begin
                found.append((joined, end))
        yield from found

    def causes_of(self, parts: Sequence[Span]) -> tuple[Disturber, ...]:
        """Return what disturbed these parts."""
        if not parts:
            return ()
        found = [
            cause
            for cause, series in ((Disturber.STEAL, self._steal), (Disturber.QUOTA, self._quota))
            if sum(_rise(series, *part) or 0.0 for part in parts) > _QUOTA_SHARE * _length(parts)
        ]
        if any(self._was_stopped(*part) for part in parts):
            found.append(Disturber.STOPPED)
        held = self._others(parts)
        if held is not None and held > TOLERATED_CORES * _length(parts):
            found.insert(0, Disturber.PROCESSES)
        return tuple(found) or (Disturber.WAITS,)

    def cores_held(self, spans: Sequence[Span]) -> float | None:
        """Return how many cores others held over the windows."""
        held = self._others(spans)
        return None if held is None else held / _length(spans)

    def over(self, spans: Sequence[Span]) -> tuple[Disturber, ...]:
        """Return what disturbed all these spans together, however short each disturbance was."""
        time_s, found, others = _length(spans), [], self.cores_held(spans) or 0.0
        if others > max(TOLERATED_CORES, _TOLERATED_SHARE * self._cores):
            found.append(Disturber.PROCESSES)
        if self._total(self._waits, spans) > _WAITED_SHARE * time_s * self._cores:
            found.append(Disturber.PROCESSES if others > TOLERATED_CORES else Disturber.WAITS)
        if self._total(self._steal, spans) > _STEAL_SHARE * time_s * self._cores:
            found.append(Disturber.STEAL)
        if self._total(self._quota, spans) > _QUOTA_SHARE * time_s:
            found.append(Disturber.QUOTA)
        if self._total(_series(self._trial, "host_swapped_bytes"), spans) > _SWAPPED_BYTES:
            found.append(Disturber.SWAP)
        beside, held = processes_on_device(self._trial), gauge(self._trial, "device_throttled")
        capped = gauge(self._trial, "device_power_capped")  # a card at its power limit is as it should be
        if beside is not None and beside[0] > 0:
            found.append(Disturber.DEVICE_SHARED)
        if held is not None and held[0] - (capped[0] if capped is not None else 0.0) > _THROTTLED_SHARE:
            found.append(Disturber.DEVICE_THROTTLED)
        return tuple(dict.fromkeys(found))

    def _is_disturbed(self, begin: float, end: float) -> bool:
        time_s = end - begin
        held, waited = self._others([(begin, end)]), _rise(self._waits, begin, end)
        return (
            (held or 0.0) > max(_HELD_CORES, _TOLERATED_SHARE * self._cores) * max(time_s, EVIDENCE_PERIOD_S)
            or (waited or 0.0) > _WAITED_CORES * max(time_s, _SHORT_S)
            or (_rise(self._steal, begin, end) or 0.0) > _HELD_CORES * max(time_s, EVIDENCE_PERIOD_S)
            or (_rise(self._quota, begin, end) or 0.0) > 0.0
            or self._was_stopped(begin, end)
        )

    def _waits_a_little(self, begin: float, end: float) -> bool:
        return (_rise(self._waits, begin, end) or 0.0) > _WAITED_BESIDE * max(end - begin, _SHORT_S)

    def _others(self, spans: Sequence[Span]) -> float | None:
        """Return the CPU time of others in seconds."""
        host = [_rise(self._host, *span) for span in spans]
        own = [_rise(self._own, *span) for span in spans]
        if None in host or None in own:
            return None
        return max(0.0, math.fsum(h for h in host if h is not None) - math.fsum(o for o in own if o is not None))

    def _total(self, series: Series | None, spans: Sequence[Span]) -> float:
        return math.fsum(_rise(series, *span) or 0.0 for span in spans)

    def _was_stopped(self, begin: float, end: float) -> bool:
        """Return whether a reading at either end of the interval found the process stopped."""
        if self._stopped is None:
            return False
        times, values = self._stopped.at_s, self._stopped.values
        last = bisect_right(times, end + EVIDENCE_PERIOD_S / 10.0)
        first = bisect_right(times, begin - EVIDENCE_PERIOD_S / 10.0)
        return any(values[first:last])


def waited_for_others(waited_s: float, others_s: float, time_s: float) -> bool:
    """Return whether threads that waited so long for a core did so for others, who used the CPU for so long meanwhile.

    Else they waited for one another.
    """
    return waited_s <= _OWN_WAITS * others_s + _WAITED_SHARE * time_s


def _series(trial: Trial, metric: str) -> Series | None:
    return next((s for s in trial.series if s.metric == metric and s.rank == 0), None)


def _moments(series: Series | None, span: Span) -> list[float]:
    inside = [at for at in series.at_s if span[0] < at < span[1]] if series is not None else []
    return [span[0], *inside, span[1]]


def _rise(series: Series | None, begin: float, end: float) -> float | None:
    return increase(series.at_s, series.values, begin, end) if series is not None else None


def _length(spans: Sequence[Span]) -> float:
    return math.fsum(end - begin for begin, end in spans)


def disturbers(disturbances: Sequence[Disturbance], by: Disturber | None = None) -> tuple[str, Values]:
    """Return what disturbed some trials: its text in messages.DISTURBED, and the values in that.

    `by`: what of it; None: the first cause.
    """
    cause = by or next((cause for one in disturbances for cause in one.causes), Disturber.PROCESSES)
    if cause != Disturber.PROCESSES:
        return str(cause), {}
    names = tuple(dict.fromkeys(name for one in disturbances for name, _ in one.processes))[:2]
    most = max((one.cores for one in disturbances if one.cores is not None), default=0.0)
    return ("programs", {"programs": names, "cores": most}) if names else ("processes", {"cores": most})


def disturbance_words(disturbances: Sequence[Disturbance]) -> str:
    """Return what disturbed some trials, as the beginning of a sentence."""
    by, values = disturbers(disturbances)
    return filled(DISTURBED[by], values)

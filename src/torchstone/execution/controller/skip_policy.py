"""Predicts from earlier trials which trials cannot succeed, and why, so that they are skipped.

Only what is certain is said; in doubt, it is tried. A Case of which one trial ended well is never objected to.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping

import msgspec

from torchstone.core.messages import Values
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.memory_figures import DEVICE_PEAKS, HOST_PEAK, PEAKS
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Reason, Status, Trial, ended
from torchstone.core.stats.peak_memory import predict_peak
from torchstone.execution.host_memory import available_bytes

_SIZES = ("batch_size", "sequence_length", "image_size")  # axes along which the memory of a step only grows
# The first that was measured counts. The allocator gives back what is merely reserved before it gives up, so that only
# what is allocated is certain to be needed.
_CERTAIN_FIRST = tuple(reversed(DEVICE_PEAKS))
# Resident pages that a trial shares with the process it was forked from count in its peak, and are in use already.
_SHARED_BYTES = 1 << 30
# How far a straight line through few points is trusted: from batches at least twofold apart to one at most eight times
# as large, and from peaks of an eighth of the capacity or more, beside which what is not proportional is small.
_APART, _BEYOND = 2, 8

_Sizes = tuple[Scalar, ...]


class _Known(msgspec.Struct):
    """What the trials of one Case told: whether one ended well, the first that could not, and the highest peaks."""

    ended_well: bool = False
    failed: Trial | None = None
    peaks: dict[str, float] = msgspec.field(default_factory=dict)


class SkipPolicy:
    """What is known of a run's Cases. `so_far`: the trials taken before, where a run is resumed."""

    def __init__(self, so_far: Run, host_bytes: Callable[[], int | None] = available_bytes) -> None:
        self._machine: Machine = so_far.head.machine
        self._host_bytes = host_bytes
        # Cases that are equal but for their sizes are together: only they say anything of one another.
        self._alike: dict[bytes, dict[_Sizes, _Known]] = {}
        cases = {case.case_id: case for case in so_far.head.plan.cases}
        for trial in so_far.trials:
            if trial.case_id in cases:  # a record may be damaged
                self.learn(cases[trial.case_id], trial)

    def learn(self, case: Case, trial: Trial) -> None:
        """Take note of how a trial ended."""
        known = self._alike.setdefault(_kind(case), {}).setdefault(_sizes(case), _Known())
        status = trial.outcome.status
        if status == Status.OK:
            known.ended_well = True
            for metric in PEAKS:
                if values := trial.values(metric):
                    known.peaks[metric] = max(*values, known.peaks.get(metric, 0.0))
        elif status in (Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.UNSUPPORTED) and known.failed is None:
            if status == Status.OUT_OF_MEMORY and _in_company(trial):
                return  # without the other process it may fit
            known.failed = msgspec.structs.replace(trial, measurements=(), series=())

    def objection(self, case: Case, procedure: Procedure) -> Outcome | None:
        """Return how a trial of that Case is bound to end, which is skipped then; None: it is worth a try."""
        if not procedure.foresee:
            return None
        alike, sizes = self._alike.get(_kind(case), {}), _sizes(case)
        own = alike.get(sizes, _Known())
        if own.ended_well:
            return None
        if own.failed is not None:
            status = own.failed.outcome.status
            if status != Status.TIMED_OUT or procedure.timeout_s <= own.failed.duration_s:
                why = f": {own.failed.outcome.message}" if status == Status.UNSUPPORTED else ""
                before: Values = {"status": str(status).replace("_", " "), "trial": own.failed.trial_id, "why": why}
                return ended(Status.SKIPPED, Reason.SAME_BEFORE, before)
        fitted = [others for others, known in alike.items() if known.ended_well]
        ends = {others: known.failed for others, known in alike.items() if known.failed is not None}
        for others, trial in ends.items():
            if trial.outcome.status != Status.OUT_OF_MEMORY or not _smaller(others, sizes):
                continue
            if not any(others == well or _smaller(others, well) for well in fitted):  # else size is not the reason
                smaller: Values = {"sizes": _difference(others, sizes), "trial": trial.trial_id}
                return ended(Status.SKIPPED, Reason.SMALLER_BEFORE, smaller)
        return self._too_large(case, alike)

    def _too_large(self, case: Case, alike: Mapping[_Sizes, _Known]) -> Outcome | None:
        batch, *rest = _sizes(case)
        if not isinstance(batch, int):
            return None
        line = {sizes[0]: known.peaks for sizes, known in alike.items() if [*sizes[1:]] == rest}
        for metrics, where, capacity in self._capacities(case):
            metric = next((m for m in metrics if any(m in peaks for peaks in line.values())), metrics[0])
            points = [(size, peaks[metric]) for size, peaks in line.items() if metric in peaks]
            known = sorted((size, peak) for size, peak in points if isinstance(size, int) and size < batch)
            if len(known) < 2 or known[-1][0] < _APART * known[0][0] or batch > _BEYOND * known[-1][0]:
                continue
            peak = predict_peak(known, batch)
            room = capacity()
            if peak is not None and room is not None and known[-1][1] >= room / _BEYOND and peak.low > room:
                values: Values = {
                    "need_bytes": peak.low, "room_bytes": room, "memory": where,
                    "batch_sizes": tuple(str(size) for size, _ in known),
                }  # fmt: skip
                return ended(Status.SKIPPED, Reason.TOO_LARGE, values)
        return None

    def _capacities(self, case: Case) -> Iterator[tuple[tuple[str, ...], str, Callable[[], float | None]]]:
        """Yield raw metrics, word and capacity (bytes) of each memory that can run out."""
        placement = case.placement
        device = self._machine.device(placement.device, placement.index)
        if placement.device not in ("cpu", "mps") and device is not None:  # these share the host's, and may swap
            yield _CERTAIN_FIRST, "device", lambda: device.memory_bytes
        yield (HOST_PEAK,), "host", self._host_room

    def _host_room(self) -> float | None:
        room = self._host_bytes()
        return room + _SHARED_BYTES if room is not None else None


def skipped(case: Case, number: int, order: int, outcome: Outcome) -> Trial:
    """Return the trial that was not started."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return Trial(uuid.uuid4().hex[:12], case.case_id, number, order, now, 0.0, outcome)


def _kind(case: Case) -> bytes:
    others = {name: value for name, value in case.configuration.items() if name not in _SIZES}
    return msgspec.json.encode((case.workload.canonical(), str(case.placement), others), order="sorted")


def _sizes(case: Case) -> _Sizes:
    return tuple(case.configuration.get(name) for name in _SIZES)


def _smaller(some: _Sizes, than: _Sizes) -> bool:
    """Say whether no size is larger, and one is smaller."""
    pairs = [(a, b) for a, b in zip(some, than, strict=True) if a != b]
    return bool(pairs) and all(isinstance(a, int) and isinstance(b, int) and a < b for a, b in pairs)


def _difference(some: _Sizes, than: _Sizes) -> tuple[str, ...]:
    return tuple(f"{name} {a}" for name, a, b in zip(_SIZES, some, than, strict=True) if a != b)


def _in_company(trial: Trial) -> bool:
    return any(s.metric == "device_other_processes" and max(s.values, default=0.0) > 0.0 for s in trial.series)

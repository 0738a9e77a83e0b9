"""Collects what a trial measures, in the form in which it is sent and stored."""

from __future__ import annotations

import math
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from resource import struct_rusage

import msgspec

from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.message import Measured
from torchstone.core.schema.metric import DEVICE_PEAKS
from torchstone.core.schema.procedure import LoadMeasured
from torchstone.core.schema.trial import Measurement, Outcome, Reason, Stage, Status
from torchstone.execution.timing.loop import MeasuredWindow
from torchstone.plugins.machine_protocols import Device

# The peak device memory of a trial: of its warm-up, and, after a reset, of its windows.
#
# Compilers and libraries try kernels in the first steps, each with a workspace of its own. One peak of both would say
# that a step needs what only the choice of its kernels did.


def end_warm_up(device: Device, tally: Collector) -> None:
    """Add the peaks so far as those of the warm-up, and let the allocator's begin at what is held now.

    A device that cannot begin anew keeps its one peak, of the whole process, which is then that of the windows, too.
    """
    for metric, value in device.memory().items():
        if metric in DEVICE_PEAKS:
            tally.warm_up_peak(metric, value)
    if str(device.torch_device).startswith("cpu"):
        return
    import torch

    reset = getattr(torch.get_device_module(device.torch_device), "reset_peak_memory_stats", None)
    if reset is not None:
        reset(device.torch_device)


# ru_maxrss is in KiB on Linux and in bytes on macOS.
_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


class Collector:
    """The measurements and facts of one trial so far."""

    def __init__(self, case: Case) -> None:
        self.facts = Facts(str(case.workload.task), case.placement.device, logical_cores=os.cpu_count())
        self.at_the_end: Callable[[], Facts] = Facts  # facts that are known when all is measured
        self._measurements: list[Measurement] = []
        self._spans_s: dict[str, tuple[float, float]] = {}

    def add(self, *facts: Facts) -> None:
        """Add facts; where several know one, the last has it."""
        self.facts = merged(self.facts, *facts)

    def setup(self, metric: str, value: float) -> None:
        """Add a single value from before the steady windows."""
        self._measurements.append(Measurement(metric, Stage.SETUP, (value,)))

    def steady(self, metric: str, values: Sequence[float], window: str | None = None, phase: str | None = None) -> None:
        """Add steady values; times are kept to the nanosecond, which is what the clock has."""
        rounded = tuple(round(float(v), 9) if metric.endswith("_s") else float(v) for v in values)
        self._measurements.append(Measurement(metric, Stage.STEADY, rounded, window, phase))

    def warmed_up(self, laps_s: Sequence[float], *, settled: bool) -> None:
        """Add the warm-up steps (the first step of the process is kept apart)."""
        self._measurements.append(Measurement("step_time_s", Stage.WARMUP, tuple(round(s, 9) for s in laps_s)))
        self.facts.warmup_steps = len(laps_s)
        self.facts.warmup_settled = settled

    def warm_up_peak(self, metric: str, value: float) -> None:
        """Add the most memory (bytes) that a device held before the windows."""
        self._measurements.append(Measurement(metric, Stage.WARMUP, (float(value),)))

    def window(self, name: str, window: MeasuredWindow) -> None:
        """Add one window: laps less the wait for data are latencies in a closed loop, laps are steps back to back."""
        if name == "latency":
            answers_s = [lap - wait for lap, wait in zip(window.laps_s, window.waits_s, strict=True)]
            self.steady("latency_s", answers_s, name)
        else:
            self.steady("step_time_s", window.laps_s, name)
        self.steady("data_wait_s", window.waits_s, name)
        self.steady("items", window.items, name)
        if window.tokens is not None:
            self.steady("tokens", window.tokens, name)
        self.steady("window_time_s", [window.total_s], name)
        self.facts.stopped_because[name] = str(window.stopped_because)
        self._spans_s[name] = (window.begin_s, window.end_s)

    def turns(self, name: str, windows: Sequence[MeasuredWindow]) -> None:
        """Add all turns as one window, and beside it when each began and how long it took."""
        if not windows:
            return
        whole = MeasuredWindow(
            [lap for w in windows for lap in w.laps_s],
            [wait for w in windows for wait in w.waits_s],
            [items for w in windows for items in w.items],
            None if windows[0].tokens is None else [tokens for w in windows for tokens in w.tokens or ()],
            math.fsum(w.total_s for w in windows),
            windows[0].begin_s,
            windows[-1].end_s,
            windows[-1].stopped_because,
        )
        self.window(name, whole)
        self.steady("turn_begin_s", [w.begin_s for w in windows], name)
        self.steady("turn_time_s", [w.total_s for w in windows], name)

    def load(self, name: str, load: LoadMeasured) -> None:
        """Add what a load generator measured."""
        for metric, values in load.values.items():
            self.steady(metric, values, name)
        self.add(load.facts)
        self._spans_s[name] = (load.begin_s, load.end_s)

    def peak_memory(self) -> None:
        """Add the peak of this process's resident memory."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.steady("peak_rss_bytes", [peak * _RSS_UNIT_BYTES])

    def epoch(self, name: str, window: MeasuredWindow) -> None:
        """Add one epoch as a window of its own.

        The first step of all, in which loader processes start and kernels are compiled, is kept apart as ever.
        """
        if self.facts.warmup_steps is None:
            self.setup("first_step_time_s", window.laps_s[0])
            self.warmed_up((), settled=True)
            first_s = window.laps_s[0]
            window = msgspec.structs.replace(
                window,
                laps_s=window.laps_s[1:],
                waits_s=window.waits_s[1:],
                items=window.items[1:],
                tokens=window.tokens[1:] if window.tokens is not None else None,
                total_s=window.total_s - first_s,
                begin_s=window.begin_s + first_s,
            )
        self.window(name, window)

    def usage(self, before: struct_rusage, after: struct_rusage) -> None:
        """Add what the kernel counted for this process over the windows, and its peak resident memory."""
        self.steady("minor_faults", [after.ru_minflt - before.ru_minflt])
        self.steady("major_faults", [after.ru_majflt - before.ru_majflt])
        self.steady("involuntary_switches", [after.ru_nivcsw - before.ru_nivcsw])
        self.steady("peak_rss_bytes", [after.ru_maxrss * _RSS_UNIT_BYTES])

    def counted(self, of_step: StepCounts) -> None:
        """Add what one step needs, or why that was not counted."""
        for metric in ("flops", "traffic_bytes", "operators"):
            value = getattr(of_step, metric)
            if value is not None:
                self.setup(metric, value)
        self.facts.flops_not_counted = of_step.why_not

    def left_out(self, unreadable: Mapping[str, str]) -> None:
        """Add how many items could not be read, and the first of them."""
        if unreadable:
            where, why = next(iter(unreadable.items()))
            self.facts.unreadable_items, self.facts.unreadable_first = len(unreadable), f"{where}: {why}"

    def outcome(self) -> Outcome:
        """Return how a trial ended that measured everything: not well, if its loss became NaN or infinite."""
        return outcome_by_loss(self._measurements)

    def measured(self) -> Measured:
        """Return everything as one event."""
        return Measured(tuple(self._measurements), merged(self.facts, self.at_the_end()), self._spans_s)


def outcome_by_loss(measured: Sequence[Measurement]) -> Outcome:
    """Return how a trial ended that measured this: not well, if the loss of a rank became NaN or infinite."""
    of_ranks = {m.rank: m.values for m in measured if m.metric == "loss"}
    losses = list(zip(*of_ranks.values(), strict=False))  # a row a step: all ranks do the same steps
    lost = [step for step, row in enumerate(losses, 1) if not all(map(math.isfinite, row))]
    if not lost:
        return Outcome(Status.OK)
    laps = sum(len(m.values) for m in measured if m.metric == "step_time_s" and m.rank == 0)
    steps = max(len(losses), 1 + laps)  # warm-up counts; of a long run only the first losses and the last are kept
    first = lost[0] if lost[0] < len(losses) else steps
    stays = len(lost) == len(losses) - lost[0] + 1
    when = f"from step {first} of {steps}" if stays else f"in {len(lost)} of {steps} steps, first in step {first}"
    bad = {rank: values[lost[0] - 1] for rank, values in of_ranks.items() if not math.isfinite(values[lost[0] - 1])}
    who = f", of {len(of_ranks)} ranks first in {', '.join(map(str, bad))}" if len(bad) < len(of_ranks) else ""
    said = f"the loss is {next(iter(bad.values())):g} {when}{who}"
    return Outcome(Status.CRASHED, said, reason=Reason.LOSS_NOT_FINITE)

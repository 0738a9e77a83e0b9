"""Where the host's time goes in a step: samples of its stack, one traced step, and torch's own count of operators.

Each is a pass of its own after everything was measured, for each disturbs what it looks at. The samples tell shares
and disturb least; the trace tells how often a line runs, and not how long; the profiler counts operators.
"""

from __future__ import annotations

import linecache
import random
import resource
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from torchstone.core.schema.host_profile import HostLine, HostProfile
from torchstone.core.schema.phase import REST
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Source, Step
from torchstone.execution.worker.operators import count_operators
from torchstone.execution.worker.outcome import is_own
from torchstone.execution.worker.traced_step import Place, Traced, is_compiled, trace_step
from torchstone.plugins.machine_protocols import Device

_PERIOD_S = 0.001  # between samples, ±50 %: an even beat would meet an even loop always at the same place
_FEWEST, _MOST = 3, 400
_LINES = 12
_DEEPEST = 100  # frames looked at for one of the user's
_CODE = 120  # characters of a line that are kept


def look(step: Step, source: Source, device: Device, prepared: Any, longest_s: float) -> HostProfile:
    """Look at some steps of a model that is warm, for about `longest_s`; a source that ends ends the pass.

    Raises what a step raises.
    """
    device.synchronize()
    sampler = _Sampler()
    before, main_s, began_s = resource.getrusage(resource.RUSAGE_SELF), time.thread_time(), system_clock()
    queued_from_s = _queued_s()
    steps = sampler.over(step, source, longest_s)
    device.synchronize()
    spent_s, main_s = system_clock() - began_s, time.thread_time() - main_s
    after, queued_to_s = resource.getrusage(resource.RUSAGE_SELF), _queued_s()
    queued_s = None if queued_from_s is None or queued_to_s is None else queued_to_s - queued_from_s
    plain = not is_compiled(prepared)
    traced = trace_step(step, source) if plain else None
    device.synchronize()
    module = getattr(prepared, "module", None)
    sizes = [p.numel() for p in module.parameters() if p.requires_grad] if module is not None else []

    def each(name: str) -> float:
        return float(getattr(after, name) - getattr(before, name)) / steps

    return HostProfile(
        steps=steps, step_s=spent_s / steps, samples=sampler.total, lines=sampler.lines(traced),
        phases={phase: count / max(1, sampler.total) for phase, count in sampler.phases.items()},
        main_busy=min(1.0, main_s / spent_s), user_s=each("ru_utime"), system_s=each("ru_stime"),
        minor_faults=each("ru_minflt"), major_faults=each("ru_majflt"), involuntary_switches=each("ru_nivcsw"),
        threads=_threads(), operators=count_operators(step, source, device) if plain else None,
        tensors=len(sizes) if module is not None else None, elements=median(sizes) if sizes else None,
        main_queued=min(1.0, queued_s / spent_s) if queued_s is not None else None,
    )  # fmt: skip


def _queued_s() -> float | None:
    """Return how long this thread was ready and had no core, since it began; None where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # no Linux, or a kernel that does not count it
        return None


def _threads() -> int:
    import torch

    return torch.get_num_threads()


class _Sampler:
    """Reads the stack of the thread that does the steps, from another thread, and labels samples by their phase."""

    def __init__(self) -> None:
        self.total = 0
        self.phases: Counter[str] = Counter()
        self._main = threading.get_ident()
        self._waiting: list[Place | None] = []  # sampled, in a phase that has not ended yet
        self._found: Counter[tuple[Place, str]] = Counter()
        self._stopped = threading.Event()

    def over(self, step: Step, source: Source, longest_s: float) -> int:
        """Do steps for about so long; return how many."""
        interval_s = sys.getswitchinterval()
        thread = threading.Thread(target=self._run, daemon=True)
        # The sampler must not wait for the interpreter until an operator lets go of it: it would see operators only.
        sys.setswitchinterval(_PERIOD_S / 20)
        thread.start()
        began_s, steps = system_clock(), 0
        try:
            while steps < _FEWEST or (steps < _MOST and system_clock() - began_s < longest_s):
                try:
                    step(source, self._mark)
                except StopIteration:
                    break
                self._mark(REST)
                steps += 1
        finally:
            self._stopped.set()
            thread.join()
            sys.setswitchinterval(interval_s)
        return max(1, steps)

    def _run(self) -> None:
        dice = random.Random(0)
        while not self._stopped.wait(_PERIOD_S * dice.uniform(0.5, 1.5)):
            frame = sys._current_frames().get(self._main)
            if frame is not None:
                self._waiting.append(_place(frame))

    def _mark(self, phase: str) -> None:
        taken, self._waiting = self._waiting, []
        self.total += len(taken)
        self.phases[phase] += len(taken)
        for place in taken:
            if place is not None:
                self._found[place, phase] += 1

    def lines(self, traced: Traced | None) -> tuple[HostLine, ...]:
        """Return the lines most often seen, and those that wait for a value."""
        seen = dict(self._found.most_common(_LINES))
        found = []
        for (place, phase), count in seen.items():
            file, line, function = place
            code = linecache.getline(file, line).strip()[:_CODE]
            runs = float(traced.runs.get(place, 0)) if traced is not None else None
            waits = float(traced.waits.get(place, 0)) if traced is not None else None
            found.append(HostLine(file, line, function, code, phase, count / self.total, runs, waits))
        return tuple(found)


def _place(frame: FrameType | None) -> Place | None:
    """Return the deepest place in the user's own code; None where none of it is on the stack."""
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
        frame = frame.f_back
    return None

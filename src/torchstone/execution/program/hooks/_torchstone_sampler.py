"""Where the time of a program's steps goes, line by line: samples of its stack, then one step under a trace.

Imported by the hooks after the window, so that what was measured is not disturbed. The samples tell shares; the trace
tells how often a line runs, and how often it asks for a tensor's value.
"""

from __future__ import annotations

import linecache
import os
import random
import resource
import sys
import sysconfig
import threading
import time
from collections import Counter
from typing import Any

_PERIOD_S = 0.001  # between samples, ±50 %: an even beat would meet an even loop always at the same place
_FEWEST, _LINES, _DEEPEST, _CODE, _MOST_RUNS = 3, 24, 100, 120, 3_000_000
# Methods of a tensor that bring values to the host: on a device they wait for everything issued before.
_WAITS = {"item", "tolist", "cpu", "numpy", "nonzero", "synchronize", "__bool__", "__float__", "__int__"}
_PRINTS = ("torch/_tensor.py", "torch/_tensor_str.py", "torch/utils/_contextlib.py", "torch/_utils.py")
_PHASES = ("data", "rest", "forward", "forward", "rest", "backward", "rest", "optimizer", "rest", "transfer")  # by mark
_TRANSFER_END = 10
_HERE = os.path.dirname(os.path.abspath(__file__))
_NOT_OWN = tuple({_HERE, *(sysconfig.get_paths().get(name) or _HERE for name in ("stdlib", "platstdlib", "platlib"))})


def _is_own(file: str) -> bool:
    return not (file.startswith(("<", *_NOT_OWN)) or "site-packages" in file or "dist-packages" in file)


def _place(frame: Any) -> Any:
    """Return (file, line, function) of the deepest own code; None where none of it is on the stack."""
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        if _is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None


def _phase(kinds: Any) -> Any:
    """Return the phase after the last mark; a copy to the device may be within one."""
    place = -1
    while kinds[place] == _TRANSFER_END and len(kinds) > -place + 1:
        place -= 2
    return _PHASES[kinds[place]] if kinds[place] < len(_PHASES) else "rest"


class Sampler:
    """Samples the thread that does the steps from now on. `step_ended` is called after each of them."""

    def __init__(self, program: Any) -> None:
        self._program, self._longest_s = program, program.plan["sample_s"]
        self._seen: Counter[Any] = Counter()
        self._phases: Counter[str] = Counter()
        self._steps = self._batches = 0
        self._loading_s = self._loading_cpu_s = 0.0
        self._runs: Counter[Any] = Counter()
        self._waits: Counter[Any] = Counter()
        self._count = 0
        self._traces = self._traced = False
        self._interval_s = sys.getswitchinterval()
        # The sampler must not wait for the interpreter until an operator lets go of it: it would see operators only.
        sys.setswitchinterval(_PERIOD_S / 20)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="torchstone-sampler")
        self._before, self._main_s, self._queued_from_s = _usage(), time.thread_time(), _queued_s()
        self._began_s, self._read_from = time.perf_counter(), _read_bytes()
        self._about: dict[str, Any] = {}
        self._thread.start()

    def loading(self, following: Any, iterator: Any) -> Any:
        """Return the next batch, and note how long it took and whether this thread was at work."""
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            return following(iterator)
        finally:
            self._loading_s += time.perf_counter() - began_s
            self._loading_cpu_s += time.thread_time() - cpu_s
            self._batches += 1

    def step_ended(self) -> bool:
        """Return whether all was seen: the samples, and one step under a trace."""
        if self._traces:
            self._end_trace()
            return True
        self._steps += 1
        if self._steps < _FEWEST or time.perf_counter() - self._began_s < self._longest_s:
            return False
        self._stop()
        return not self._begin_trace()

    def _sample(self) -> None:
        program, dice = self._program, random.Random(0)
        while not self._stopped.wait(_PERIOD_S * dice.uniform(0.5, 1.5)):
            frame = sys._current_frames().get(program.thread)
            phase = _phase(program.kinds)
            self._phases[phase] += 1
            place = _place(frame)
            if place is not None:
                self._seen[place, phase] += 1

    def _stop(self) -> None:
        if self._about:
            return
        self._stopped.set()
        self._thread.join()
        sys.setswitchinterval(self._interval_s)
        spent_s, steps = max(1e-9, time.perf_counter() - self._began_s), max(1, self._steps)
        after, queued_to_s = _usage(), _queued_s()
        each = [(b - a) / steps for a, b in zip(self._before, after)]  # noqa: B905  # Python 3.9 has no strict
        known = self._queued_from_s is not None and queued_to_s is not None
        read = None if self._read_from is None else (_read_bytes() or 0) - self._read_from
        self._about = {
            "steps": steps,
            "step_s": spent_s / steps,
            "main_busy": min(1.0, (time.thread_time() - self._main_s) / spent_s),
            "main_queued": min(1.0, (queued_to_s - self._queued_from_s) / spent_s) if known else None,
            "user_s": each[0],
            "system_s": each[1],
            "minor_faults": each[2],
            "major_faults": each[3],
            "involuntary_switches": each[4],
            "read_bytes": None if read is None else read / steps,
        }

    # ── one step under a trace ──────────────────────────────────────────────────────────────────────────────

    def _begin_trace(self) -> bool:
        """Trace from here on; False where a debugger does so already, or compiled code would be compiled again."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        compiled = dynamo is not None and dynamo.counters["frames"]["total"]
        if sys.gettrace() is not None or sys.getprofile() is not None or compiled:
            return False
        self._traces = True
        frame: Any = sys._getframe()
        while frame is not None:  # the loop is running already: its frames are told, too
            if _is_own(frame.f_code.co_filename):
                frame.f_trace = self._ran
            frame = frame.f_back
        sys.setprofile(self._note_call)
        sys.settrace(self._called)
        return True

    def _end_trace(self) -> None:
        sys.settrace(None)
        sys.setprofile(None)
        frame: Any = sys._getframe()
        while frame is not None:
            if frame.f_trace is not None:
                frame.f_trace = None
            frame = frame.f_back
        self._traces, self._traced = False, True

    def _called(self, frame: Any, event: str, _argument: Any) -> Any:
        return self._ran if event == "call" and _is_own(frame.f_code.co_filename) else None

    def _ran(self, frame: Any, event: str, _argument: Any) -> Any:
        if event == "line" and self._traces:
            self._count += 1
            if self._count > _MOST_RUNS:
                sys.settrace(None)
                return None
            self._runs[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name] += 1
        return self._ran if self._traces else None

    def _note_call(self, frame: Any, event: str, argument: Any) -> None:
        """Count what own code asks of a tensor, by itself or as it prints one."""
        if event != "c_call" or getattr(argument, "__name__", "") not in _WAITS:
            return
        if not isinstance(argument.__self__, self._program.torch.Tensor):
            return
        while frame is not None and frame.f_code.co_filename.endswith(_PRINTS):
            frame = frame.f_back
        if frame is not None and _is_own(frame.f_code.co_filename):
            self._waits[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name] += 1

    # ── what was found ──────────────────────────────────────────────────────────────────────────────────────

    def profile(self) -> Any:
        """Return it, as it is sent."""
        self._stop()
        total = max(1, sum(self._phases.values()))
        seen = Counter(dict(self._seen.most_common(_LINES)))
        for place in self._waits:  # those that ask for values are told however little time they take
            if not any(known == place for known, _ in seen):
                seen[place, "rest"] = 0
        lines = [
            {
                "file": file,
                "line": line,
                "function": function,
                "phase": phase,
                "share": count / total,
                "code": linecache.getline(file, line).strip()[:_CODE],
                "runs_per_step": float(self._runs[file, line, function]) if self._traced else None,
                "waits_per_step": float(self._waits[file, line, function]) if self._traced else None,
            }
            for ((file, line, function), phase), count in seen.most_common()
        ]
        return {
            **self._about,
            "samples": total,
            "lines": lines,
            "phases": {phase: count / total for phase, count in self._phases.items()},
            "batches": self._batches,
            "loading_s": self._loading_s,
            "loading_cpu_s": self._loading_cpu_s,
        }


def _usage() -> Any:
    held = resource.getrusage(resource.RUSAGE_SELF)
    return held.ru_utime, held.ru_stime, held.ru_minflt, held.ru_majflt, held.ru_nivcsw


def _read_bytes() -> Any:
    """Return how much this process has read by now, from files or pipes; None where the system does not tell."""
    try:
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _queued_s() -> Any:
    """Return how long this thread was ready and had no core; None where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None

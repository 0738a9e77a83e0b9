"""One step under sys.settrace: how often each of the user's lines runs, and how often it reads a tensor's value."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

from torchstone.execution.timing.loop import Source, Step, unmarked
from torchstone.execution.worker.outcome import is_own

Place = tuple[str, int, str]  # file, line, function
# Methods of a tensor that bring values to the host: on a device they wait for everything issued before.
_WAITS = {"item", "tolist", "cpu", "numpy", "nonzero", "synchronize", "__bool__", "__float__", "__int__"}
_MOST = 3_000_000  # lines: a second or two


class Traced:
    """What one step did: how often each place ran, and how often it waited."""

    def __init__(self) -> None:
        self.runs: Counter[Place] = Counter()
        self.waits: Counter[Place] = Counter()
        self._count = 0

    def called(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Follow the user's own functions (sys.settrace)."""
        return self._ran if event == "call" and is_own(frame.f_code.co_filename) else None

    def _ran(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._count += 1
            if self._count > _MOST:
                sys.settrace(None)
                return None
            self.runs[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname] += 1
        return self._ran

    def asked(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count what waits (sys.setprofile)."""
        if event == "c_call" and getattr(argument, "__name__", "") in _WAITS and is_own(frame.f_code.co_filename):
            self.waits[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname] += 1


def trace_step(step: Step, source: Source) -> Traced | None:
    """Do one step under a trace. None where the source has ended, or something else traces already (a debugger)."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return None
    traced = Traced()
    sys.setprofile(traced.asked)
    sys.settrace(traced.called)
    try:
        step(source, unmarked)
    except StopIteration:
        return None
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return traced


def is_compiled(prepared: Any) -> bool:
    """Say whether a step runs compiled code, which would be compiled again under a trace or a counter."""
    return any(type(value).__name__ == "OptimizedModule" for value in vars(prepared).values())

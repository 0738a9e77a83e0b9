"""Ctrl-C and SIGTERM while something is measured: once to end it well, twice to be out at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from torchstone.core.errors import ExitCode

EXIT_CODE = ExitCode.INTERRUPTED


@contextmanager
def answered() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first signal: the running trial is ended, what is measured is recorded.

    SystemExit at the second: processes are ended, nothing more is looked at. At the third the process is gone at once,
    and the kernel ends what it had started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = 0

    def answer(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        if heard == 1:
            raise KeyboardInterrupt
        if heard == 2:
            raise SystemExit(EXIT_CODE)
        os._exit(EXIT_CODE)

    before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Another process that draws while this one goes on: vl-convert holds the interpreter's lock for as long as it draws.

It is a new interpreter, since a program may have threads by then, and takes no interrupt from the terminal: whoever
started it ends it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

_MOST = 2  # processes: each takes some 150 MB

Draw = Callable[[bytes], str]


class DrawingProcess:
    """Draws specifications in the order in which they were begun, or as they are asked for."""

    def __init__(self, pool: ProcessPoolExecutor, draw: Draw) -> None:
        self._pool, self._draw = pool, draw
        self._begun: dict[bytes, Future[str]] = {}

    def begin(self, spec: bytes) -> None:
        """Have a specification drawn meanwhile."""
        if spec not in self._begun:
            self._begun[spec] = self._pool.submit(self._draw, spec)

    def drawn(self, spec: bytes) -> str:
        """Return the drawing, once it is there. Where the process was killed, it is drawn in this one."""
        try:
            self.begin(spec)
            return self._begun[spec].result()
        except BrokenProcessPool:
            return self._draw(spec)


@contextmanager
def drawing_process(draw: Draw) -> Iterator[DrawingProcess]:
    """Have `draw`, a function of a module, run in another process until the end of the block."""
    count = max(1, min(_MOST, (os.cpu_count() or 1) - 1))
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_uninterrupted)
    try:
        yield DrawingProcess(pool, draw)
    finally:
        pool.shutdown(cancel_futures=True)


def _uninterrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

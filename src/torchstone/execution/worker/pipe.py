"""The trial's end of the pipe: one JSON line per event out, and one line per command in where turns alternate."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from torchstone.core.schema.codec import encode
from torchstone.core.schema.message import ASK_WHERE, Event


def prepare_process(descriptor: int) -> None:
    """Get the process of a trial ready for any end. `descriptor`: its end of the pipe.

    A fatal signal (segfault, abort, …), and ASK_WHERE while it hangs, has the interpreter write its stack into the pipe
    (`faulthandler`): the controller tells these lines from events, and finds the user's own among them.
    """
    os.set_inheritable(descriptor, False)
    # A loader's processes are forked from this one. If they kept the pipe open, the controller would learn of this
    # one's death only when torch's watchdog ends them, 5 s later. What their interpreters write goes to stderr.
    os.register_at_fork(after_in_child=lambda: os.dup2(2, descriptor, inheritable=False))
    faulthandler.enable(descriptor)
    faulthandler.register(signal.Signals[ASK_WHERE], descriptor, all_threads=False)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox without /proc: then the kernel chooses by size alone
            # When the host's memory ends, the kernel shall take the trial, which is data, and not its controller.
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


class EventPipe:
    """Writes events to a descriptor of its own, so that whatever libraries print cannot mix with them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, event: Event) -> None:
        """Write one event. Raises BrokenPipeError when the controller is gone: then the trial may die, too."""
        self.write(encode(event) + b"\n")

    def write(self, words: bytes) -> None:
        """Write what is no event, or one that is encoded already."""
        data = memoryview(words)
        while data:
            data = data[os.write(self._descriptor, data) :]

    @contextlib.contextmanager
    def shared(self) -> Iterator[int]:
        """Return a descriptor of the same pipe for processes that are forked meanwhile: this one is closed to them."""
        descriptor = os.dup(self._descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def receive(self) -> bytes:
        """Wait for one line from the controller and return it; b"" when the controller is gone."""
        line = b""
        while not line.endswith(b"\n"):
            data = os.read(self._descriptor, 4096)  # one word at a time is under way: the next follows our answer
            if not data:
                return b""
            line += data
        return line

"""The trial's end of the pipe: one JSON line per event out, and one line per command in where turns alternate."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from torchstone.core.schema.codec import encode
from torchstone.core.schema.message import Event


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

"""The trial's end of the pipe: one JSON line per event out, and one line per command in where turns alternate."""

from __future__ import annotations

import os

from torchstone.core.schema.codec import encode
from torchstone.core.schema.message import Event


class EventPipe:
    """Writes events to a descriptor of its own, so that whatever libraries print cannot mix with them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, event: Event) -> None:
        """Write one event. Raises BrokenPipeError when the controller is gone: then the trial may die, too."""
        data = memoryview(encode(event) + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive(self) -> bytes:
        """Wait for one line from the controller and return it; b"" when the controller is gone."""
        line = b""
        while not line.endswith(b"\n"):
            data = os.read(self._descriptor, 4096)  # one word at a time is under way: the next follows our answer
            if not data:
                return b""
            line += data
        return line

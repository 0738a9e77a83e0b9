"""The trial's end of the pipe: one JSON line an event."""

from __future__ import annotations

import os

from torchstone.terms.codec import encode
from torchstone.terms.message import Event


class EventPipe:
    """Writes events to a descriptor of its own, so that whatever libraries print cannot mix with them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, event: Event) -> None:
        """Write one event. Raises BrokenPipeError when the controller is gone: then the trial may die, too."""
        data = memoryview(encode(event) + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]

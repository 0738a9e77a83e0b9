"""Keeps all that measuring in the user's own process would change, for as long as it is measured there."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from torchstone.api.keeping.contents import reached, undo_of
from torchstone.api.keeping.data import undo_reading
from torchstone.api.keeping.process import RandomStates, Switches
from torchstone.api.keeping.tensors import KeptTensor
from torchstone.core import units
from torchstone.core.errors import MissingError
from torchstone.core.schema.facts import Facts
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.timing.clock import system_clock


class Held:
    """What modules and optimizers hold, as it is now. Costs one copy of their tensors, in host memory."""

    def __init__(self, roots: Iterable[Any], beside: Held | None = None) -> None:
        """Leave out what is kept in `beside`. Raises MissingError where the host has no memory for the copy."""
        import torch

        began_s = system_clock()
        self.found: list[Any] = list(reached(roots, beside.found if beside is not None else ()))
        self._tensors = [KeptTensor(one) for one in self.found if isinstance(one, torch.Tensor)]
        self._undo = [undo for one in self.found if (undo := undo_of(one)) is not None]
        self._memories = {kept.memory.key: kept.memory for kept in self._tensors if kept.memory is not None}
        self.kept_bytes = sum(memory.size_bytes for memory in self._memories.values())
        _refuse_more_than_there_is(self.kept_bytes)
        for memory in self._memories.values():
            memory.copy()
        self.kept_s = system_clock() - began_s

    def without_gradients(self) -> None:
        """Set all gradients aside."""
        for kept in self._tensors:
            kept.without_gradient()

    def put_back(self) -> None:
        """Put everything back, each thing even where another cannot be."""
        with ExitStack() as last_first:
            for kept in self._tensors:
                last_first.callback(kept.put_back)
            for memory in self._memories.values():
                last_first.callback(memory.put_back)
            for undo in self._undo:
                last_first.callback(undo)


class Keeping:
    """A user's module, loss, optimizer, data and process: put back after every trial, and at the end of it all.

    Copies are made and put back in place: optimizers go on with the parameters that they refer to, tied weights stay
    tied, and what cannot be copied as an object need not be.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        """Keep the parts `model`, `loss`, `optimizer` and `example`. Raises MissingError for want of memory."""
        self._random, self._switches, self._warnings = RandomStates(), Switches(), warnings.catch_warnings()
        self._reading = undo_reading(parts.get("example"))
        self._held = Held(parts.get(name) for name in ("model", "loss", "optimizer"))
        self._handed_out: list[Held] = []
        self._restored_s, self._in_trial = 0.0, False
        self._handed_bytes, self._handed_s = 0, 0.0

    def __enter__(self) -> Self:
        """From here on anything may be changed; warnings that are switched off are so until the end."""
        self._warnings.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back what is changed before and after trials: by looking at the data, by writing the record.

        And all else, where a second Ctrl-C came just between the end of a trial and its being put back.
        """
        self._warnings.__exit__(kind, error, trace)
        self._back(held=self._in_trial)

    def handed_out(self, optimizer: Any) -> Any:
        """Return an optimizer that a function of the user's gave just now: to the end of the trial it is kept, too.

        It may be one that was there before, and is not made anew for every trial.
        """
        self._handed_out.append(Held([optimizer], beside=self._held))
        return optimizer

    @contextmanager
    def trial(self, seed: int) -> Iterator[None]:
        """Begin with gradients set aside and random numbers seeded, and put everything back at the end."""
        self._in_trial = True
        try:
            self._random.look_at_devices()
            self._random.seed(seed)
            self._held.without_gradients()
            yield
        finally:
            self.put_back()

    def put_back(self) -> None:
        """Put everything back now."""
        self._back(held=True)

    @property
    def facts(self) -> Facts:
        """What the last trial cost: bytes of the copies in host memory, seconds to make them, and to put them back."""
        return Facts(
            kept_bytes=self._held.kept_bytes + self._handed_bytes,
            kept_s=round(self._held.kept_s + self._handed_s, 6),
            restored_s=round(self._restored_s, 6),
        )

    def _back(self, *, held: bool) -> None:
        began_s = system_clock()
        with _uninterrupted(), ExitStack() as last_first:
            last_first.callback(self._switches.put_back)
            last_first.callback(self._random.put_back)
            for undo in self._reading:
                last_first.callback(undo)
            if held:
                last_first.callback(self._held.put_back)
                for one in self._handed_out:
                    last_first.callback(one.put_back)
                self._handed_bytes = sum(one.kept_bytes for one in self._handed_out)
                self._handed_s = sum(one.kept_s for one in self._handed_out)
                self._handed_out = []
        if held:
            self._in_trial = False
            self._restored_s = system_clock() - began_s


def _refuse_more_than_there_is(needed_bytes: int) -> None:
    free = available_bytes()
    if free is not None and needed_bytes > free:
        raise MissingError(
            f"restoring the module afterwards needs a copy of {units.quantity(needed_bytes, 'bytes')}, but the "
            f"host has {units.quantity(free, 'bytes')} free; `torchstone run` has its own processes and needs no copy"
        )


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done: half of the weights put back are none."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread
        return
    heard: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    before = signal.getsignal(signal.SIGINT)
    if before is None:  # somebody's own, in C: Python could not set it again
        yield
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)

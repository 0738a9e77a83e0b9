"""torch's profiler around some steps, with nothing said on the user's terminal."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def profiled(activities: Iterable[Any], **more: Any) -> Iterator[Any]:
    """Profile what is done within, once; return torch's profiler. `more`: what else it is told."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # it would say that it starts and stops
    from torch.profiler import profile

    profiler = profile(activities=[*activities], **more)
    with ExitStack() as stack:
        with warnings.catch_warnings():  # that of torch 2.12 begins with a warning of second cycles: here is none
            warnings.filterwarnings("ignore", "Warning: Profiler clears events")
            stack.enter_context(profiler)
        yield profiler

"""A torch made of paper, for accelerators that the machine of the tests does not have."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Backend:
    """torch.cuda, torch.xpu or torch.mps: a queue of events that passes what it is told to, all when waited for."""

    def __init__(self, properties=(), stats=None, event_error=None):
        self.properties, self.event_error = list(properties), event_error
        self.queue: list[Any] = []
        self.passed_s: dict[Any, float] = {}
        self.now_s, self.waited, self.current = 0.0, 0, None
        if stats is not None:
            self.memory_stats = lambda: stats
        if properties:
            self.set_device = self._set_device
        backend = self

        class Event:
            made = 0

            def __init__(self, enable_timing=False):
                assert enable_timing
                Event.made += 1

            def record(self):
                backend.passed_s.pop(self, None)
                backend.queue.append(self)

            def query(self):
                return self in backend.passed_s

            def synchronize(self):
                while not self.query():
                    backend.advance(1)

            def elapsed_time(self, end):
                if backend.event_error:
                    raise backend.event_error
                if not (self.query() and end.query()):
                    raise RuntimeError("CUDA error: device not ready")
                return (backend.passed_s[end] - backend.passed_s[self]) * 1e3

        self.Event = Event

    def _set_device(self, index):
        self.current = index

    def advance(self, events):
        """Let the device pass so many events, 10 ms apart."""
        for _ in range(events):
            self.now_s += 0.010
            self.passed_s[self.queue.pop(0)] = self.now_s

    def synchronize(self):
        self.waited += 1
        self.advance(len(self.queue))

    def is_available(self):
        return bool(self.properties)

    def device_count(self):
        return len(self.properties)

    def get_device_properties(self, index):
        return self.properties[index]


@pytest.fixture
def fake_torch(monkeypatch):
    """Return a function that puts a fake torch in the place of the real one."""

    def install(**backends):
        torch: Any = ModuleType("torch")
        torch.__version__ = "2.13.0"
        torch.version = SimpleNamespace(cuda=None, hip=None, xpu=None)
        torch.device = lambda kind, index=None: f"{kind}:{index}"
        torch.backends = SimpleNamespace(
            mps=SimpleNamespace(
                is_available=lambda: "mps" in backends,
                is_built=lambda: "mps" in backends,
                is_macos_or_newer=lambda major, minor: major <= 13,
                get_name=lambda: "Apple M2",
            )
        )
        none = Backend()
        torch.get_device_module = lambda kind: backends.get(kind, none)
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(
            sys.modules, "torch.utils._foreach_utils",
            SimpleNamespace(_get_fused_kernels_supported_devices=lambda: ["cuda", "xpu", "cpu"]),
        )  # fmt: skip
        return torch

    return install


@pytest.fixture
def backend():
    return Backend

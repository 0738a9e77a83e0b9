"""A torch made of paper, for accelerators that the machine of the tests does not have."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Backend:
    """torch.cuda, torch.xpu or torch.mps: a queue of events a device, which passes as many as it is told to, or all.

    `counted`: the devices that NVML shows, which is what is told before initialisation (as many as there are).
    `init_error`: what initialisation raises.
    """

    def __init__(self, properties=(), stats=None, event_error=None, counted=None, init_error=None):
        self.properties, self.event_error, self.init_error = list(properties), event_error, init_error
        self.counted = len(self.properties) if counted is None else counted
        self.initialised = False
        self.queues: dict[int, list[Any]] = {}
        self.step_s = {0: 0.010}  # from one event to the next, on each device
        self.passed_s: dict[Any, float] = {}
        self.now_s: dict[int, float] = {}
        self.waited, self.current = 0, None
        if stats is not None:
            self.memory_stats = lambda device=None: stats
        if properties:
            self.set_device = self._set_device
        backend = self

        class Event:
            made = 0

            def __init__(self, enable_timing=False):
                assert enable_timing
                Event.made += 1

            def record(self, stream=None):
                backend.passed_s.pop(self, None)
                self.device = backend._which(stream)
                backend.queues.setdefault(self.device, []).append(self)

            def query(self):
                return self in backend.passed_s

            def synchronize(self):
                while not self.query():
                    backend.advance(1, self.device)

            def elapsed_time(self, end):
                if backend.event_error:
                    raise backend.event_error
                if not (self.query() and end.query()):
                    raise RuntimeError("CUDA error: device not ready")
                return (backend.passed_s[end] - backend.passed_s[self]) * 1e3

        self.Event = Event

    def _set_device(self, index):
        self.current = index

    def _which(self, index):
        return (self.current or 0) if index is None else index

    def advance(self, events, device=0):
        """Let a device pass so many events, 10 ms apart, or as far as `step_s` says."""
        for _ in range(events):
            self.now_s[device] = self.now_s.get(device, 0.0) + self.step_s.get(device, 0.010)
            self.passed_s[self.queues[device].pop(0)] = self.now_s[device]

    def synchronize(self, device=None):
        self.waited += 1
        self.advance(len(self.queues.get(self._which(device), ())), self._which(device))

    def current_stream(self, device=None):
        return self._which(device)

    def init(self):
        if self.init_error is not None:
            raise self.init_error
        if not self.properties:
            raise AssertionError("Torch not compiled with CUDA enabled")
        self.initialised = True

    def is_available(self):
        return self.device_count() > 0

    def device_count(self):
        return len(self.properties) if self.initialised else self.counted

    def get_device_properties(self, index):
        if not 0 <= index < self.device_count():
            raise AssertionError("Invalid device id")
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

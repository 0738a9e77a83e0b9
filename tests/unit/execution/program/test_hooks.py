"""Hooks on a device that runs behind the host, with a fake one: marks are its events, and nothing waits for it."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.execution import program
from torchstone.execution.program.steps import Marks, steps_of

HOOKS = Path(program.__file__).parent / "hooks" / "_torchstone_hooks.py"


class Behind:
    """A device: an event records when the device comes to it, `late_s` after the host has issued it."""

    def __init__(self, clock, late_s):
        device = self
        self.waited = 0

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at_s = clock[0] * device.slower + late_s

            def elapsed_time(self, other):
                return 1e3 * (other.at_s - self.at_s)

        self.Event, self.slower = Event, 2.0
        self.max_memory_allocated = self.max_memory_reserved = lambda: 1024

    def synchronize(self):
        self.waited += 1


@pytest.fixture
def hooks(monkeypatch) -> Any:
    spec = importlib.util.spec_from_file_location("hooks_of_a_test", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("idle_s", [0.0, 5.0])
def test_marks_are_the_devices_events_and_the_other_sides_turns_are_left_out(hooks, monkeypatch, idle_s):
    clock = [100.0]
    device = Behind(clock, 0.5)
    monkeypatch.setattr(hooks, "_clock", lambda: clock[0])
    found: dict[str, Any] = {}
    p = hooks._program = hooks._Program({})
    p.say = lambda word, **about: found.update(about) if word == "marks" else None
    p.torch = SimpleNamespace(fake=device, get_num_threads=lambda: 1, __version__="2.9")
    p.device, p.thread, p.event_class, p.events, p.has_optimizer = "fake", 1, device.Event, [], True
    for number in range(4):
        for kind, lasts_s in (
            (hooks.TRAIN_FORWARD, 0.01), (hooks.FORWARD_END, 0.0), (hooks.BACKWARD, 0.02), (hooks.BACKWARD_END, 0.0),
            (hooks.OPTIMIZER, 0.005), (hooks.OPTIMIZER_END, 0.0),
        ):  # fmt: skip
            p.mark(kind)
            clock[0] += lasts_s
        p.ended_by.append(0)
        p.optimizers[1] = 0
        if number == 1:  # the other side has its turn
            p.idle.append((len(p.kinds), 2.0 * idle_s))
            clock[0] += idle_s
    assert device.waited == 0
    p.window_mark = 0
    hooks._send()
    assert device.waited == 1, "once, at the end of the window"
    steps = steps_of(Marks(**{name: found[name] for name in Marks.__struct_fields__ if name in found}))
    assert [step.elapsed_s for step in steps] == pytest.approx([0.07] * 3), "twice what the host took to issue them"
    assert steps[0].phases_s["backward"] == pytest.approx(0.04)
    assert found["memory"]["peak_allocated_bytes"] == 1024

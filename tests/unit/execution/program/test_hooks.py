"""Hooks on a device that runs behind the host, with a fake one: marks are its events, and nothing waits for it."""

import importlib.util
import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.execution import program
from torchstone.execution.program.steps import Marks, steps_of

HOOKS = Path(program.__file__).parent / "hooks"


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
def hooks() -> Any:
    return loaded("_torchstone_hooks")


def loaded(name) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_of_a_test", HOOKS / f"{name}.py")
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
    p.device, p.thread, p.has_optimizer = "fake", 1, True
    p.mark_on(device.Event)
    for number in range(4):
        for kind, lasts_s in (
            (hooks.TRAIN_FORWARD, 0.01), (hooks.FORWARD_END, 0.0), (hooks.BACKWARD, 0.02), (hooks.BACKWARD_END, 0.0),
            (hooks.OPTIMIZER, 0.005), (hooks.OPTIMIZER_END, 0.0),
        ):  # fmt: skip
            p.mark(kind)
            clock[0] += lasts_s
        p.ended_by.append(0)
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


def test_what_torch_does_around_its_own_hooks_belongs_to_the_optimizers_step(hooks):
    clock = [0.0]
    p = hooks._program = hooks._Program({})
    p.tick, p.due_s, p.due_steps = lambda: clock[0], math.inf, math.inf
    began, ended = hooks._bounds_of_a_step()

    def passes(seconds):
        clock[0] += seconds

    def profiled(step):
        def within_record_function(optimizer):
            passes(1.0)
            began(optimizer, (), {})
            step(optimizer)
            ended(optimizer, (), {})
            passes(2.0)

        return within_record_function

    hooks._wrapped_profiling(began, ended, profiled)(lambda _: passes(10.0))(object())
    assert list(p.kinds) == [hooks.OPTIMIZER, hooks.OPTIMIZER_END]
    assert list(p.times) == [0.0, 13.0]
    assert p.steps == 1


class Held:
    """A tensor: of the host, or of a device."""

    def __init__(self, is_cpu=True, is_pinned=False):
        self.is_cpu, self.is_pinned = is_cpu, lambda: is_pinned

    def to(self, where, **_):
        if where == "broken":
            raise RuntimeError(where)
        return self if where == "float16" else type(self)(where == "cpu", self.is_pinned())

    def cuda(self):
        return self.to("cuda")


def test_copies_to_the_device_are_marked_and_nothing_else(hooks):
    tensor = type("Tensor", (Held,), {})
    p = hooks._program = hooks._Program({})
    p.is_compiling, p.thread = lambda: False, None
    for name in ("to", "cuda"):
        setattr(tensor, name, hooks._wrapped_copy(getattr(tensor, name)))
    p.mark(hooks.FORWARD)
    assert tensor().to("float16").is_cpu
    assert not tensor(is_cpu=False).to("cuda").is_cpu
    assert list(p.kinds) == [hooks.FORWARD], "another number format, and what lies on the device already"
    assert not tensor().cuda().is_cpu
    assert not tensor(is_pinned=True).to("cuda", non_blocking=True).is_cpu
    with pytest.raises(RuntimeError, match="broken"):
        tensor().to("broken")
    assert list(p.kinds) == [hooks.FORWARD, *3 * [hooks.TRANSFER, hooks.TRANSFER_END]]
    assert len(p.times) == len(p.kinds)
    assert (p.copies, p.pageable) == (3, 2)
    p.is_compiling = lambda: True
    tensor().cuda()
    assert p.copies == 3, "what is compiled is left alone"


def test_the_time_of_copies_within_a_pass_is_a_phase_of_its_own(hooks):
    one = [hooks.TRANSFER, hooks.TRANSFER_END, hooks.TRAIN_FORWARD, hooks.TRANSFER, hooks.TRANSFER_END,
           hooks.FORWARD_END, hooks.BACKWARD, hooks.BACKWARD_END, hooks.OPTIMIZER, hooks.OPTIMIZER_END]  # fmt: skip
    kinds = 3 * one
    marks = Marks(
        bytes(kinds).hex(), tuple(map(float, range(len(kinds)))), (), (8, 8, 8), (0, 0, 0), 3, "cuda", "2.9", 1, 0, {},
        99.0, True, copies=6, pageable=6,
    )  # fmt: skip
    assert [step.phases_s["transfer"] for step in steps_of(marks)] == [2.0, 2.0]
    assert [step.phases_s["forward"] for step in steps_of(marks)] == [2.0, 2.0]


def test_samples_of_a_copy_belong_to_it_and_those_after_it_to_the_pass_around():
    spec = importlib.util.spec_from_file_location("sampler_of_a_test", HOOKS / "_torchstone_sampler.py")
    assert spec is not None
    assert spec.loader is not None
    sampler: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sampler)
    assert [sampler._phase(kinds) for kinds in ([2, 9], [2, 9, 10], [2, 9, 10, 9, 10], [4, 9, 10], [9, 10])] == [
        "transfer", "forward", "forward", "rest", "rest",
    ]  # fmt: skip


def test_a_replica_of_a_hooked_module_computes_with_its_own_weights(hooks):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2)
    hooks._program = hooks._Program({})
    hooks._program.torch, hooks._program.is_compiling = torch, torch.compiler.is_compiling
    replicate = hooks._wrapped_replicate(torch.nn.Module._replicate_for_data_parallel)
    hooks._hook_module(module)
    assert "_compiled_call_impl" in module.__dict__, "it is hooked"
    replica = replicate(module)
    replica.weight, replica.bias = torch.zeros(2, 2), torch.ones(2)
    assert torch.equal(replica(torch.ones(1, 2)), torch.ones(1, 2))


def test_a_hooked_module_that_is_compiled_later_keeps_its_marks_and_computes_compiled(hooks):
    torch = pytest.importorskip("torch")
    module, other = torch.nn.Module(), torch.nn.Module()
    for one in (module, other):
        one.forward = lambda x: x + x
    hooks._program = hooks._Program({})
    hooks._program.torch, hooks._program.is_compiling = torch, torch.compiler.is_compiling
    compiled = hooks._wrapped_compile(torch.nn.Module.compile)
    hooks._hook_module(module)
    calls = []

    def backend(graph, _):
        calls.append(graph)
        return graph.forward

    for one in (module, other):
        compiled(one, backend=backend)
    marked = hooks._program.hooked[id(module)][2]
    assert module.__dict__["_compiled_call_impl"] is marked
    assert id(other) not in hooks._program.hooked
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 2.0))
    assert calls, "it was compiled"
    hooks._unhook_module(id(module))
    assert module.__dict__["_compiled_call_impl"] is not marked
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 2.0))


def test_only_steps_of_the_thread_that_counts_are_marked_and_none_after_the_end(hooks):
    p = hooks._program = hooks._Program({})
    p.thread, p.due_s, p.due_steps = threading.get_ident(), math.inf, math.inf
    p.has_optimizer = True
    began, ended = hooks._bounds_of_a_step()
    passed = hooks._wrapped_backward(lambda loss: loss)

    def step():
        assert passed("loss") == "loss"
        began(p, (), {})
        began(p, (), {})  # of an optimizer within another
        ended(p, (), {})
        ended(p, (), {})

    other = threading.Thread(target=step)
    other.start()
    other.join()
    assert not p.kinds
    step()
    one = [hooks.BACKWARD, hooks.BACKWARD_END, hooks.OPTIMIZER, hooks.OPTIMIZER_END]
    assert list(p.kinds) == one
    assert (p.steps, p.ended_by) == (1, [id(p)])
    p.stop()
    step()
    assert list(p.kinds) == one


def test_a_step_takes_what_lies_between_the_last_ends_of_steps(hooks):
    p = hooks._program = hooks._Program({})
    for number in range(12):
        p.kinds += bytes([hooks.BACKWARD_END, hooks.OPTIMIZER_END])
        p.times.extend([10.0 * number + 1.0, 10.0 * number + 2.0])
    assert loaded("_torchstone_turns")._readiness(p) == {"step_s": 10.0, "queue": 0, "cycle": 1}


def test_a_window_goes_on_until_enough_of_it_is_left_alone_as_in_torchstones_own_trials(hooks, monkeypatch):
    beside = loaded("_torchstone_others")
    p = hooks._Program({"budget_s": 1.0})
    p.torch, p.began_s, p.window_s = SimpleNamespace(get_num_threads=lambda: 2), 8.0, 10.0

    def goes_on(at_s, waited_s, others_s):
        counted = iter([(0.0, 0.0), (waited_s, others_s)])
        monkeypatch.setattr(beside, "contention", lambda: next(counted))
        return beside.Others(p).spoil(at_s)

    assert not goes_on(11.0, 0.03, 0.1), "as much as on any machine"
    assert not goes_on(11.0, 0.5, 0.0), "its threads wait for one another"
    assert goes_on(11.0, 0.5, 0.5)
    assert goes_on(11.5, 0.5, 0.5)
    assert not goes_on(11.8, 0.5, 0.5), "1 s may be spoilt, and 0.8 s are left"
    assert not goes_on(13.1, 3.0, 3.0), "a new trial takes 2 s until its window"


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count waits for a core")
def test_contention_is_read_of_this_process():
    beside = loaded("_torchstone_others")
    waited_s, others_s = beside.contention()
    assert 0.0 <= waited_s < 1e4
    assert others_s > 0.0
    assert beside.contention()[0] >= waited_s

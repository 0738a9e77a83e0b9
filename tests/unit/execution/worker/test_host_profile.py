"""A look at the host in a real step: the lines it is at, how often they run, what it asks of torch."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchstone.core.schema.batch import Batch
from torchstone.core.schema.host_profile import Operators
from torchstone.execution.timing.loop import unmarked
from torchstone.execution.worker import host_profile
from torchstone.execution.worker.host_profile import look
from torchstone.execution.worker.operators import count_operators, on_device
from torchstone.execution.worker.outcome import is_own
from torchstone.execution.worker.traced_step import trace_step
from torchstone.plugins import registry

CPU = registry.load("devices", "cpu").open(0)


class Step:
    """5 ms in the user's own loop in the forward pass, 15 ms asleep in the backward pass, and 8 values asked for."""

    def __init__(self):
        self.module = torch.nn.Linear(4, 4)
        self.values = torch.arange(8.0)
        self.asked = 0.0

    def __call__(self, pull, mark):
        pull()
        mark("data")
        for value in self.values:
            self.asked += value.item()
        until_s = time.perf_counter() + 0.005
        while time.perf_counter() < until_s:
            pass
        mark("forward")
        time.sleep(0.015)
        mark("backward")


def pull():
    return Batch({}, 1)


@pytest.fixture(scope="module")
def seen():
    step = Step()
    return look(step, pull, CPU, SimpleNamespace(module=step.module), 0.4)


def test_samples_say_where_the_time_goes(seen):
    assert seen.samples > 50
    # Of 20 ms; but beside another test any part of a step is kept waiting now and then.
    assert seen.phases["backward"] == pytest.approx(0.75, abs=0.2)
    assert seen.phases["forward"] == pytest.approx(0.25, abs=0.2)
    asleep = max(seen.lines, key=lambda line: line.share)
    assert asleep.code == "time.sleep(0.015)"
    assert asleep.phase == "backward"
    assert asleep.function == "Step.__call__"
    assert asleep.file == __file__
    assert 0.02 <= seen.step_s < 0.2, "longer beside other work, never shorter"
    assert seen.main_busy < 0.6, "it slept most of the time"


def test_a_traced_step_says_how_often_a_line_runs_and_waits():
    traced = trace_step(Step(), pull)
    assert traced is not None
    by_line = {line: count for (_, line, _), count in traced.waits.items()}
    assert list(by_line.values()) == [8]
    (line,) = by_line
    assert next(count for (_, at, _), count in traced.runs.items() if at == line) == 8
    assert sys.gettrace() is None
    assert sys.getprofile() is None


def test_somebody_else_s_trace_is_left_alone():
    sys.setprofile(lambda *_: None)
    try:
        assert trace_step(Step(), pull) is None
    finally:
        sys.setprofile(None)


def test_a_source_that_ends_ends_the_look():
    def ended():
        raise StopIteration

    assert trace_step(Step(), ended) is None
    assert count_operators(Step(), ended, CPU) is None


def test_operators_and_waits_are_counted():
    def step(source, mark):
        source()
        x = torch.ones(3)
        (x + 1).sum().item()

    counted = count_operators(step, pull, CPU)
    assert counted == Operators(calls=4, waits=1)
    step(pull, unmarked)


def test_the_interpreter_switches_as_before(seen):
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_tensors_of_the_update_are_counted(seen):
    assert seen.tensors == 2
    assert seen.elements == 10.0


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (__file__, True), (torch.__file__, False), (time.strftime.__doc__ and sys.modules["random"].__file__, False),
        (host_profile.__file__, False), ("<string>", False), ("/home/me/train.py", True),
        (host_profile.__file__.replace("/execution/worker/host_profile.py", "_of_mine/train.py"), True),
        ("/home/me/.venv/lib/python3.12/site-packages/timm/x.py", False),
    ],
)  # fmt: skip
def test_whose_a_file_is(file, own):
    assert is_own(file) is own


def event(name, kind, us):
    span = SimpleNamespace(elapsed_us=lambda: us)
    return SimpleNamespace(name=name, device_type=SimpleNamespace(name=kind), time_range=span)


def test_kernels_and_copies_are_those_of_the_device():
    events = [
        event("aten::add", "CPU", 9.0), event("gemm", "CUDA", 30.0), event("relu", "CUDA", 10.0),
        event("Memcpy HtoD (Pageable -> Device)", "CUDA", 100.0), event("Memset (Device)", "CUDA", 1.0),
    ]  # fmt: skip
    found = on_device(events, Operators(5, 1))
    assert (found.calls, found.kernels, found.pageable_copies) == (5, 2, 1)
    assert found.kernel_s == pytest.approx(40e-6)
    assert found.copy_s == pytest.approx(100e-6)
    assert on_device(events[:1], Operators(5, 1)) == Operators(5, 1)


@pytest.mark.parametrize("told", [{"is_user_annotation": True}, {}])
def test_a_range_that_is_drawn_over_kernels_is_none(told):
    name = "Optimizer.step#AdamW.step"
    drawn = event(name, "CUDA", 500.0)
    vars(drawn).update(told)
    events = [event(name, "CPU", 600.0), event("adamw", "CUDA", 490.0), drawn]
    found = on_device(events, Operators(5, 1))
    assert found.kernels == 1
    assert found.kernel_s == pytest.approx(490e-6), "its time would count twice"


def test_a_range_that_torch_names_so_needs_no_twin_on_the_host():
    drawn = event("forward", "CUDA", 500.0)
    drawn.is_user_annotation = True
    assert on_device([event("gemm", "CUDA", 490.0), drawn], Operators(5, 1)).kernels == 1


@pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not count waits for a core"
)
def test_waiting_for_a_core_is_told_from_waiting():
    """Beside a process that wants the same core, a thread that computes has half of it; it waits for nothing else."""

    def compute(pull, mark):
        until_s = time.thread_time() + 0.01
        while time.thread_time() < until_s:
            pass
        mark("forward")

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbour:  # on the same core
            seen = look(compute, pull, CPU, SimpleNamespace(module=torch.nn.Linear(4, 4)), 0.5)
            neighbour.kill()
    finally:
        os.sched_setaffinity(0, before)
    assert seen.main_queued is not None
    assert seen.main_queued > 0.1
    assert seen.main_busy < 0.85
    assert seen.at_work > 0.8

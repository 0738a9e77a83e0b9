"""torch's profiler around a step."""

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from build import a_case
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from torchstone.core.schema.case import Placement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.model import Batch
from torchstone.core.schema.trial import Operators
from torchstone.execution.timing.loop import unmarked
from torchstone.execution.worker import execution, profiling
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.outcome import is_own
from torchstone.execution.worker.profiling import (
    add_device_work,
    attention_facts,
    count_operators,
    kernels_in,
    profile_steps,
    profiled,
    trace_step,
)
from torchstone.plugins import registry


def test_what_is_done_within_is_seen_with_its_shapes():
    with profiled([ProfilerActivity.CPU], record_shapes=True) as profiler:
        torch.ones(2, 3) @ torch.ones(3, 4)
    (product,) = [event for event in profiler.events() if event.name == "aten::mm"]
    assert product.input_shapes[:2] == [[2, 3], [3, 4]]


def test_the_warning_that_torch_begins_with_is_not_shown_and_others_are(monkeypatch):
    begin = profile.__enter__

    def warning(self):
        warnings.warn("Warning: Profiler clears events at the end of each cycle.Only", stacklevel=2)  # as torch 2.12
        return begin(self)

    monkeypatch.setattr(profile, "__enter__", warning)
    with profiled([ProfilerActivity.CPU]), pytest.warns(UserWarning, match="of a step"):
        warnings.warn("Warning: of a step", stacklevel=1)


CPU = registry.load("devices", "cpu").open(0)


def pull():
    return Batch({}, 1)


def attends(source, mark):
    source()
    q = torch.randn(1, 2, 16, 8, requires_grad=True)
    scaled_dot_product_attention(q, q, q).sum().backward()


def attends_without_gradients(source, mark):
    with torch.inference_mode():
        q = torch.randn(1, 2, 16, 8)
        scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("step", [attends, attends_without_gradients])
@pytest.mark.parametrize(("backend", "kernel"), [(SDPBackend.FLASH_ATTENTION, "flash"), (SDPBackend.MATH, "math")])
def test_the_kernel_that_ran_is_told_and_not_the_one_that_was_allowed(step, backend, kernel, compiled):
    with sdpa_kernel(backend):
        assert attention_facts(step, pull, CPU, compiled=compiled) == Facts(attention_kernel=kernel)


def test_torchs_own_order_on_a_cpu_is_flash():
    assert attention_facts(attends, pull, CPU, compiled=False) == Facts(attention_kernel="flash")


def test_a_model_without_attention_has_no_kernel():
    def step(source, mark):
        source()
        torch.ones(3).softmax(0)

    assert attention_facts(step, pull, CPU, compiled=False) == Facts()


def test_the_fast_path_of_a_transformer_layer_is_told_apart():
    layer = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()

    def step(source, mark):
        with torch.inference_mode():
            layer(torch.randn(1, 4, 16))

    assert attention_facts(step, pull, CPU, compiled=False) == Facts(attention_kernel="native")


def test_a_source_that_has_ended_and_a_step_that_cannot_be_watched_cost_nothing():
    def ended():
        raise StopIteration

    assert attention_facts(attends, ended, CPU, compiled=False) == Facts()

    def refuses(source, mark):
        raise NotImplementedError("no dispatch for QuantizedTensor\nsecond line")

    assert attention_facts(refuses, pull, CPU, compiled=False) == Facts(
        attention_not_seen="NotImplementedError: no dispatch for QuantizedTensor"
    )


NAMES = {
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>":
        "flash",
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8>>":
        "flash",
    "attn_fwd.kd": "flash",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)":
        "efficient",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64_4x1x1_kernel0_0": "cudnn",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_efficient_attention_backward": "efficient",
    "aten::_scaled_dot_product_fused_attention_overrideable": "overrideable",
    "aten::_scaled_dot_product_attention_math_for_mps": "math",
    "void at::native::softmax_warp_forward<float, float, float, 5, false, false>": None,
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": None,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_known_by_their_names(name):
    assert kernels_in([name, "Memcpy HtoD (Pinned -> Device)"]) == NAMES[name]


def test_several_kernels_in_a_step_are_all_told():
    assert kernels_in(["aten::_scaled_dot_product_attention_math", "aten::_flash_attention_forward"]) == "flash+math"


@pytest.mark.parametrize(
    ("place", "step_s", "sdpa", "looks"),
    [("cuda", 0.5, True, True), ("cuda", 2.0, True, False), ("cuda", 0.5, False, False), ("cpu", 0.5, True, False)],
    ids=["an accelerator", "a long step", "a task without attention", "a CPU"],
)
def test_an_accelerators_steps_are_looked_at_where_one_more_costs_little(place, step_s, sdpa, looks):
    case = a_case({"sdpa": "auto"} if sdpa else {}, placement=Placement(place))
    prepared: Any = SimpleNamespace(count=lambda batch: StepCounts(), module=None)
    batches: Any = SimpleNamespace(next=pull)
    tally = Collector(case)
    execution._count(attends, step_s, batches, prepared, CPU, case, tally)
    assert tally.facts.attention_kernel == ("flash" if looks else None)


def test_where_torch_keeps_no_raw_events_its_list_tells(monkeypatch):
    listed = [SimpleNamespace(name="aten::_scaled_dot_product_flash_attention")]
    monkeypatch.setattr("torch.profiler.profile", Listing(listed))
    assert attention_facts(attends, pull, CPU, compiled=False) == Facts(attention_kernel="flash")


class Listing:
    """A profiler that has its list of events only."""

    profiler = SimpleNamespace()

    def __init__(self, listed):
        self._listed = listed

    def __call__(self, activities):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """It has seen enough."""

    def events(self):
        return self._listed


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


@pytest.fixture(scope="module")
def seen():
    step = Step()
    return profile_steps(step, pull, CPU, SimpleNamespace(module=step.module), 0.4)


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
        (profiling.__file__, False), ("<string>", False), ("/home/me/train.py", True),
        (profiling.__file__.replace("/execution/worker/profiling.py", "_of_mine/train.py"), True),
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
    found = add_device_work(events, Operators(5, 1))
    assert (found.calls, found.kernels, found.pageable_copies) == (5, 2, 1)
    assert found.kernel_s == pytest.approx(40e-6)
    assert found.copy_s == pytest.approx(100e-6)
    assert add_device_work(events[:1], Operators(5, 1)) == Operators(5, 1)


@pytest.mark.parametrize("told", [{"is_user_annotation": True}, {}])
def test_a_range_that_is_drawn_over_kernels_is_none(told):
    name = "Optimizer.step#AdamW.step"
    drawn = event(name, "CUDA", 500.0)
    vars(drawn).update(told)
    events = [event(name, "CPU", 600.0), event("adamw", "CUDA", 490.0), drawn]
    found = add_device_work(events, Operators(5, 1))
    assert found.kernels == 1
    assert found.kernel_s == pytest.approx(490e-6), "its time would count twice"


def test_a_range_that_torch_names_so_needs_no_twin_on_the_host():
    drawn = event("forward", "CUDA", 500.0)
    drawn.is_user_annotation = True
    assert add_device_work([event("gemm", "CUDA", 490.0), drawn], Operators(5, 1)).kernels == 1


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
            seen = profile_steps(compute, pull, CPU, SimpleNamespace(module=torch.nn.Linear(4, 4)), 0.5)
            neighbour.kill()
    finally:
        os.sched_setaffinity(0, before)
    assert seen.main_queued is not None
    assert seen.main_queued > 0.1
    assert seen.main_busy < 0.85
    assert seen.at_work > 0.7

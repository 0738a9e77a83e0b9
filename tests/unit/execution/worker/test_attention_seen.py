"""Which attention ran: really, on this CPU; and by names of kernels as profilers of devices have written them."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from build import a_case
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from torchstone.core.schema.batch import Batch
from torchstone.core.schema.case import Placement
from torchstone.core.schema.counted import Counted
from torchstone.core.schema.facts import Facts
from torchstone.execution.worker import execution
from torchstone.execution.worker.attention_seen import attention_facts, kernels_in
from torchstone.execution.worker.collector import Collector
from torchstone.plugins import registry

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
    prepared: Any = SimpleNamespace(count=lambda batch: Counted(), module=None)
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

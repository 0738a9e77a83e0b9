"""What the name of a number format leaves open is said beside it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.backends import cuda

from torchstone.core.errors import Unsupported
from torchstone.plugins.tasks import _settings
from torchstone.plugins.tasks._settings import in_effect


@pytest.mark.parametrize(
    ("precision", "kind", "hip", "said"),
    [
        ("fp32", "cuda", None, "tf32_off"),
        ("tf32", "cuda", None, "tf32_on"),
        ("bf16", "cuda", None, "autocast"),
        ("fp16", "xpu", None, "autocast"),
        ("bf16", "cpu", None, "autocast"),
        ("fp32", "cuda", "7.0", None),
        ("fp32", "cpu", None, None),
    ],
)
def test_how_a_precision_is_carried_out(monkeypatch, precision, kind, hip, said):
    monkeypatch.setattr(torch.version, "hip", hip)
    device: Any = SimpleNamespace(torch_device=torch.device(kind))
    assert in_effect({"precision": precision}, device).precision_in_effect == said


class Attends(nn.Module):
    """Attention with a mask, or with dropout."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout, self.calls = dropout, 0

    def forward(self, x):
        self.calls += 1
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=self.dropout)


def work(module, tensors):
    return module(tensors["x"])


def given(*shape: int) -> Any:
    return {"x": torch.randn(*(shape or (1, 2, 8, 16)))}


@pytest.fixture(autouse=True)
def put_back():
    yield
    _settings.allow("auto")


def enabled():
    return [
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        cuda.math_sdp_enabled(),
    ]


def test_torch_may_take_that_kernel_alone_and_then_all_again():
    before = enabled()
    _settings.allow("math")
    assert enabled() == [False, False, False, True]
    _settings.allow("flash")
    assert enabled() == [True, False, False, False]
    _settings.allow("auto")
    assert enabled() == before
    _settings.allow(None)
    assert enabled() == before


@pytest.mark.parametrize("kernel", ["math", "flash"])
def test_every_kernel_of_the_cpu_gives_the_same(kernel):
    tensors = given()
    expected = work(Attends(), tensors)
    _settings.allow(kernel)
    torch.testing.assert_close(_settings.insisting(work, kernel, compiles=False)(Attends(), tensors), expected)


def test_torchs_own_order_costs_nothing():
    assert _settings.insisting(work, "auto", compiles=False) is work
    assert _settings.insisting(work, None, compiles=False) is work


def test_a_kernel_that_does_not_fit_is_unsupported_with_what_it_needs():
    module = Attends(dropout=0.5)
    _settings.allow("flash")
    with pytest.raises(Unsupported, match=r"sdpa=flash: torch has no such kernel .*on a CPU no dropout"):
        _settings.insisting(work, "flash", compiles=False)(module, given())


def test_a_model_without_attention_has_nothing_to_choose():
    insists = _settings.insisting(work, "math", compiles=False)
    with pytest.raises(Unsupported, match="does not call scaled_dot_product_attention"):
        insists(nn.Linear(16, 2), given())


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_torchs_own_transformer_layers_attend(train):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).train(train)
    _settings.allow("math")
    with torch.inference_mode():
        result = _settings.insisting(work, "math", compiles=False)(layer, given(1, 8, 16))
    assert result.shape == (1, 8, 16)


def test_only_the_first_call_of_a_module_is_watched(monkeypatch):
    module = Attends()
    _settings.insisting(work, "math", compiles=False)(module, given())
    monkeypatch.setattr(_settings, "_Watch", lambda: pytest.fail("watched again"))
    _settings.insisting(work, "math", compiles=False)(module, given())  # an engine may wrap its work at every step
    assert module.calls == 2


def test_compiled_code_is_not_watched():
    assert _settings.insisting(work, "math", compiles=True)(nn.Linear(16, 2), given()).shape == (1, 2, 8, 2)


def test_what_else_goes_wrong_is_not_the_kernels_fault():
    def breaks(module, tensors):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        _settings.insisting(breaks, "math", compiles=False)(nn.Linear(1, 1), given())

"""Operations of a step against their formulas: torch's counter alone says 0 for several kernels of a CPU."""

import pytest
import torch

from torchstone.core.schema.advice import Statement
from torchstone.plugins.tasks import _flops


def counted(module, shape):
    found = _flops.count(module, lambda network, tensors: network(tensors["x"]), {"x": torch.zeros(shape)})
    assert found.why_not is None
    return found.flops


class Forward(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        self.inner(x)


def test_matmul():
    assert counted(Forward(torch.nn.Linear(64, 32)), (8, 64)) == 2 * 8 * 64 * 32


def test_convolution():
    conv = torch.nn.Conv2d(3, 16, 3, padding=1)
    assert counted(Forward(conv), (2, 3, 32, 32)) == 2 * 2 * 16 * 32 * 32 * 3 * 9


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_attention_is_counted_in_both_modes(mode):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    getattr(layer, mode)()
    batch, length, width, inner = 2, 16, 64, 128
    projections = 2 * batch * length * width * (4 * width + 2 * inner)
    attention = 2 * 2 * batch * length * length * width
    assert counted(Forward(layer), (batch, length, width)) == projections + attention == 2_228_224


def test_lstm():
    lstm = torch.nn.LSTM(8, 16, batch_first=True)
    assert counted(Forward(lstm), (2, 4, 8)) == 2 * 2 * 4 * 4 * 16 * (8 + 16)


def test_a_backward_pass_costs_two_forward_passes():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False))
    forward = 2 * 8 * 64 * 64 * 2
    total = _flops.count(net, lambda network, tensors: network(tensors["x"]).sum(), {"x": torch.zeros(8, 64)}).flops
    assert total == forward + 2 * forward - 2 * 8 * 64 * 64, "the gradient of the input is not needed"


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("kind", [torch.nn.Conv2d, torch.nn.ConvTranspose2d])
def test_a_convolution_in_groups_costs_the_same_forwards_and_for_each_gradient(kind, groups):
    before, conv = torch.nn.Conv2d(3, 16, 1), kind(16, 16, 3, padding=1, groups=groups)
    net = torch.nn.Sequential(before, conv)
    x = torch.zeros(2, 3, 8, 8)
    total = _flops.count(net, lambda network, tensors: network(tensors["x"]).sum(), {"x": x}).flops
    first, second = 2 * 2 * 64 * 3 * 16, 2 * 2 * 64 * 9 * 16 * 16 // groups
    assert total == 2 * first + 3 * second


def test_what_cannot_be_counted_says_why():
    class Own(torch.nn.Module):
        def forward(self, x):
            return x * float(x.sum())

    found = _flops.count(Own(), lambda network, tensors: network(tensors["x"]), {"x": torch.zeros(3)})
    assert (found.flops, found.traffic_bytes, found.operators) == (None, None, None)
    assert found.why_not is not None
    assert found.why_not.id == "not_on_meta"


def test_nothing_to_count_is_not_zero():
    found = _flops.count(Forward(torch.nn.ReLU()), lambda n, t: n(t["x"]), {"x": torch.zeros(3)})
    assert found.flops is None
    assert found.why_not == Statement("no_formula")


def test_counting_leaves_the_model_as_it_was():
    net = torch.nn.Linear(4, 4)
    before = net.weight.clone()
    _flops.count(net, lambda network, tensors: network(tensors["x"]).sum(), {"x": torch.zeros(2, 4)})
    assert net.weight.grad is None
    assert torch.equal(net.weight, before)

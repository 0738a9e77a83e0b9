"""Operations and traffic of whole layers and models against formulas worked out by hand, forwards and backwards."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, ViTConfig, ViTForImageClassification

from torchstone.plugins.tasks import _flops
from torchstone.plugins.tasks._flops import count
from torchstone.plugins.tasks.train import strategies

FUNCTIONS = torch.nn.functional


def forward(network, tensors):
    with torch.no_grad():
        network(**tensors)


def backward(network, tensors):
    return network(**tensors).sum()


class Called(torch.nn.Module):
    """A layer with its input under the name that the tests use."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize(("padding", "dilation", "kernel"), [(0, 1, 3), (2, 2, 3), (3, 1, 7)])
def test_a_convolution_with_strides_and_groups(stride, groups, padding, dilation, kernel):
    conv = torch.nn.Conv2d(8, 16, kernel, stride, padding, dilation, groups, bias=False)
    x = {"x": torch.zeros(4, 8, 32, 24)}
    sides = [(side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for side in (32, 24)]
    once = 2 * 4 * 16 * sides[0] * sides[1] * (8 // groups) * kernel * kernel
    assert count(Called(conv), forward, x).flops == once
    assert count(Called(conv), backward, x).flops == 2 * once  # and the gradient of the weights; none of the input
    x["x"].requires_grad_()
    lifted = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1, bias=False), conv)
    first = 2 * 4 * 8 * 8 * 32 * 24
    assert count(Called(lifted), backward, {"x": torch.zeros(4, 8, 32, 24)}).flops == 2 * first + 3 * once


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (7, 13, 5), (128, 768, 3072)])
def test_products_of_matrices_of_any_shape(rows, inner, columns):
    layer = torch.nn.Linear(inner, columns, bias=False)
    x = {"x": torch.zeros(rows, inner)}
    once = 2 * rows * inner * columns
    found = count(Called(layer), forward, x)
    assert (found.flops, found.traffic_bytes) == (once, 4 * (rows * inner + inner * columns + rows * columns))
    assert count(Called(layer), backward, x).flops == 2 * once


def test_half_precision_halves_what_moves_and_nothing_else():
    layer, x = torch.nn.Linear(64, 32), {"x": torch.zeros(8, 64)}
    whole, half = count(Called(layer), forward, x), count(Called(layer), forward, x, "bf16")
    assert (half.flops, half.operators) == (whole.flops, whole.operators)
    assert whole.traffic_bytes is not None
    assert half.traffic_bytes == whole.traffic_bytes / 2


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = torch.nn.Linear(16, 3 * 16, bias=False)

    def forward(self, x):
        q, k, v = self.lift(x).chunk(3, -1)
        return FUNCTIONS.scaled_dot_product_attention(q, k, v)


def test_the_scores_of_attention_are_never_written():
    """Fused attention reads q, k, v and writes its result; its gradients read and write those twice more."""
    x, length, width = {"x": torch.zeros(1, 2, 500, 16)}, 500, 16
    rows = 2 * length
    lift = 4 * (rows * width + 3 * width * width + 3 * rows * width)  # of the projection: in, weights, out
    fused = 4 * 4 * rows * width
    attention = 2 * 2 * 2 * length * length * width
    found = count(Attention(), forward, x)
    assert found.flops == 2 * rows * width * 3 * width + attention
    assert found.traffic_bytes == lift + fused
    # Squared, since the gradient of a plain sum is one number, repeated by its strides.
    learnt = count(Attention(), lambda network, tensors: network(**tensors).square().sum(), x)
    assert learnt.flops == 2 * 2 * rows * width * 3 * width + 3 * attention
    assert learnt.traffic_bytes == 2 * lift + 3 * fused  # of the projection only the weights' gradient


def test_operators_leave_views_out():
    class Views(torch.nn.Module):
        def forward(self, x):
            return (x.view(4, 16).t() @ x.view(4, 16)).reshape(-1).relu()

    assert count(Views(), forward, {"x": torch.zeros(64)}).operators == 2


def encoder(batch, length, width, inner, depth):
    """Projections (four of the width squared, two of the inner width) and attention's two products, of all layers."""
    return depth * (2 * batch * length * (4 * width * width + 2 * width * inner) + 4 * batch * length * length * width)


def test_a_vision_transformer():
    config = ViTConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, image_size=32, patch_size=8,
        num_labels=10,
    )  # fmt: skip
    network, batch, length = ViTForImageClassification(config).eval(), 2, 17
    patches, head = 2 * batch * 16 * 64 * 3 * 8 * 8, 2 * batch * 64 * 10
    whole = patches + encoder(batch, length, 64, 256, 3) + head
    images = {"pixel_values": torch.zeros(batch, 3, 32, 32)}
    assert count(network, forward, images).flops == whole

    def loss(module, tensors):
        return module(**tensors).logits.sum()

    # Images have no gradient: the products that cut them into patches are done twice, all others three times.
    assert count(network.train(), loss, images).flops == 3 * whole - patches


def test_bert():
    config = BertConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=192, vocab_size=100, num_labels=2
    )
    network, batch, length = BertForSequenceClassification(config).eval(), 3, 20
    pooler_and_head = 2 * batch * (48 * 48 + 48 * 2)
    whole = encoder(batch, length, 48, 192, 2) + pooler_and_head
    ids = {"input_ids": torch.zeros(batch, length, dtype=torch.long), "labels": torch.zeros(batch, dtype=torch.long)}
    assert count(network, forward, ids).flops == whole
    # Embeddings are looked up, not multiplied: every product has both its gradients.
    assert count(network.train(), lambda module, tensors: module(**tensors).loss, ids).flops == 3 * whole


def test_an_update_passes_over_weights_gradients_and_moments():
    layer = torch.nn.Linear(8, 8)
    for name in ("sgd", "adam", "adamw"):
        optimizer, _ = strategies.build(list(layer.parameters()), {"optimizer": name, "learning_rate": 0.1})
        layer(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        kept = [t for state in optimizer.state.values() for t in state.values() if getattr(t, "ndim", 0)]
        numbers = sum(t.numel() for t in kept) // sum(p.numel() for p in layer.parameters())
        assert strategies.PASSES[name] == 3 + 2 * numbers, "weights and gradients read, weights written; moments, too"
    assert _flops.count(Called(layer), backward, {"x": torch.zeros(2, 8)}).traffic_bytes

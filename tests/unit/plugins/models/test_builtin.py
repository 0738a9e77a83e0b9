import pytest
import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task, Workload
from torchstone.plugins import registry
from torchstone.plugins.models.builtin import names as builtin
from torchstone.plugins.models.builtin.nets import Denoiser, GestureNet


@pytest.mark.parametrize("name", builtin.GESTURE_SIZES)
def test_the_table_tells_the_parameters(name: str) -> None:
    hidden, layers, parameters = builtin.GESTURE_SIZES[name]
    with torch.device("meta"):
        assert sum(p.numel() for p in GestureNet(hidden, layers).parameters()) == parameters


def test_the_sizes_span_what_they_claim() -> None:
    sizes = [parameters for _, _, parameters in builtin.GESTURE_SIZES.values()]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.2e6
    assert sizes[-1] > 45e6


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'gesture-tiny'"):
        registry.load("models", "builtin").card("gesture-tinny", {})


@pytest.mark.parametrize("options", [{"weights": "pretrained"}, {"clases": 3}])
def test_wrong_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        registry.load("models", "builtin").card("cnn", options)


@pytest.mark.parametrize("name", builtin.DENOISER_SIZES)
def test_a_denoiser_has_the_parameters_of_the_table_at_any_length(name: str) -> None:
    depth, hidden, parameters = builtin.DENOISER_SIZES[name]
    for length in (7, 32):
        assert sum(p.numel() for p in Denoiser(depth, hidden, length).parameters()) == parameters


@pytest.mark.long
def test_a_denoiser_learns_to_return_the_sequence_without_the_noise() -> None:
    torch.manual_seed(0)
    source = registry.load("models", "builtin")
    card = source.card("denoiser-small", {})
    assert (card.item, card.input.width, card.defaults["sequence_length"]) == ("sequence", 2, 5160)
    workload = Workload(Task.TRAIN, "builtin:denoiser-small", "synthetic", card.item)
    model = source.load("denoiser-small", workload, {"sequence_length": 12})
    tensors = {"features": torch.randn(16, 12, 2)}
    assert model.forward(model.module, tensors).shape == (16, 12, 2)
    optimizer = torch.optim.Adam(model.module.parameters(), 1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.loss(model.module, tensors)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]

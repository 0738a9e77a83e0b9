import pytest
import torch

from torchstone import registry
from torchstone.errors import UsageError
from torchstone.models import builtin
from torchstone.models._builtin_nets import GestureNet


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

"""What a user's function may return beside the module: which is the loss, which the optimizer, by what they take."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from torchstone.core.errors import UsageError
from torchstone.plugins.models.py.returned import Kind, taken_apart

NET = nn.Linear(4, 3)
EXAMPLE = (torch.zeros(2, 4), torch.zeros(2, dtype=torch.long))
DATA = TensorDataset(*EXAMPLE)


class Words:
    def __call__(self, text, **how):
        return {"input_ids": [1], "attention_mask": [1]}

    def encode(self, text):
        return [1]


def criterion(output, target):
    return output.sum()


OPTIMIZERS: list[Any] = [
    torch.optim.SGD, partial(torch.optim.AdamW, lr=0.1), lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    lambda model: torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(NET.parameters(), lr=0.1),
]  # fmt: skip
LOSSES: list[Any] = [nn.CrossEntropyLoss(), nn.functional.cross_entropy, criterion]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["class", "partial", "parameters", "model", "made"])
@pytest.mark.parametrize("loss", LOSSES, ids=["module", "torch's", "own"])
@pytest.mark.parametrize("given", [EXAMPLE, DATA, Words()], ids=["example", "data", "tokenizer"])
def test_loss_and_optimizer_may_change_places(given, loss, optimizer):
    for returned in ((NET, given, loss, optimizer), (NET, given, optimizer, loss)):
        found = taken_apart("f", returned)
        assert found.loss is loss
        assert found.optimizer is not None
        made = found.optimizer(NET.parameters())
        assert isinstance(made, torch.optim.Optimizer)
        assert sum(len(group["params"]) for group in made.param_groups) == 2


@pytest.mark.parametrize("third", [nn.CrossEntropyLoss(), torch.optim.SGD])
def test_one_alone_is_known_too(third):
    found = taken_apart("f", (NET, EXAMPLE, third))
    assert (found.loss is third) == isinstance(third, nn.Module)
    assert (found.optimizer is not None) == (found.loss is None)


def test_where_nothing_tells_them_apart_it_is_their_place():
    def any_number(*arguments: Any) -> Any: ...

    def many(*arguments: Any) -> Any: ...

    assert taken_apart("f", (NET, EXAMPLE, any_number, many)).loss is any_number
    assert taken_apart("f", (NET, DATA, any_number, many)).loss is many


def test_an_optimizer_that_takes_its_parameters_for_the_module_is_told_how_to_get_it():
    made = taken_apart("f", (NET, EXAMPLE, nn.CrossEntropyLoss(), lambda m: m.configure_optimizers())).optimizer
    assert made is not None
    with pytest.raises(AttributeError) as raised:
        made(NET.parameters())
    assert raised.value.__notes__ == [
        "an optimizer is called with the parameters; with the module, if m is named model"
    ]


def test_an_optimizer_that_is_there_already_starts_without_its_state():
    net = nn.Linear(4, 3)
    adam = torch.optim.Adam(net.parameters())
    net(torch.zeros(2, 4)).sum().backward()
    adam.step()
    found = taken_apart("f", (net, EXAMPLE, nn.CrossEntropyLoss(), adam))
    assert found.optimizer is not None
    assert found.optimizer(net.parameters()) is adam
    assert not adam.state


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (EXAMPLE, Kind.EXAMPLE),
        (list(EXAMPLE), Kind.EXAMPLE),
        ({"x": EXAMPLE[0]}, Kind.EXAMPLE),
        ([EXAMPLE, EXAMPLE], Kind.DATA),
        ([{"x": EXAMPLE[0]}], Kind.DATA),
        (DATA, Kind.DATA),
        (Words(), Kind.TOKENIZER),
        ("words", Kind.EXAMPLE),
    ],
)
def test_what_it_works_on_is_told_by_its_type(given, kind):
    assert taken_apart("f", (NET, given)).kind is kind


def test_what_can_be_called_and_is_no_tokenizer_is_refused_by_what_it_lacks():
    with pytest.raises(UsageError, match="a function beside its module: a tokenizer has `encode`"):
        taken_apart("f", (NET, lambda texts: texts))


def test_a_dictionary_names_one_thing_to_work_on():
    assert taken_apart("f", {"model": NET, "tokenizer": Words()}).kind is Kind.TOKENIZER
    assert taken_apart("f", {"model": NET, "data": DATA, "loss": criterion}).loss is criterion
    with pytest.raises(UsageError, match="returned example and data; return one of them"):
        taken_apart("f", {"model": NET, "data": DATA, "example": EXAMPLE})
    with pytest.raises(UsageError, match="the optimizer is a int, not a function"):
        taken_apart("f", {"model": NET, "data": DATA, "optimizer": 3})

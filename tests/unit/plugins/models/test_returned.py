"""What a user's function may return beside the module: which is the loss, which the optimizer, by what they take."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torchstone.core.errors import UsageError
from torchstone.plugins import registry
from torchstone.plugins.models.py.returned import ReturnedKind, returned_parts

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
        found = returned_parts("f", returned)
        assert found.loss is loss
        assert found.optimizer is not None
        made = found.optimizer(NET.parameters())
        assert isinstance(made, torch.optim.Optimizer)
        assert sum(len(group["params"]) for group in made.param_groups) == 2


@pytest.mark.parametrize("third", [nn.CrossEntropyLoss(), torch.optim.SGD])
def test_one_alone_is_known_too(third):
    found = returned_parts("f", (NET, EXAMPLE, third))
    assert (found.loss is third) == isinstance(third, nn.Module)
    assert (found.optimizer is not None) == (found.loss is None)


def test_where_nothing_tells_them_apart_it_is_their_place():
    def any_number(*arguments: Any) -> Any: ...

    def many(*arguments: Any) -> Any: ...

    assert returned_parts("f", (NET, EXAMPLE, any_number, many)).loss is any_number
    assert returned_parts("f", (NET, DATA, any_number, many)).loss is many


def test_an_optimizer_that_takes_its_parameters_for_the_module_is_told_how_to_get_it():
    made = returned_parts("f", (NET, EXAMPLE, nn.CrossEntropyLoss(), lambda m: m.configure_optimizers())).optimizer
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
    found = returned_parts("f", (net, EXAMPLE, nn.CrossEntropyLoss(), adam))
    assert found.optimizer is not None
    assert found.optimizer(net.parameters()) is adam
    assert not adam.state


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (EXAMPLE, ReturnedKind.EXAMPLE),
        (list(EXAMPLE), ReturnedKind.EXAMPLE),
        ({"x": EXAMPLE[0]}, ReturnedKind.EXAMPLE),
        ([EXAMPLE, EXAMPLE], ReturnedKind.DATA),
        ([{"x": EXAMPLE[0]}], ReturnedKind.DATA),
        (DATA, ReturnedKind.DATA),
        (Words(), ReturnedKind.TOKENIZER),
        ("words", ReturnedKind.EXAMPLE),
    ],
)
def test_what_it_works_on_is_told_by_its_type(given, kind):
    assert returned_parts("f", (NET, given)).kind is kind


def test_what_can_be_called_and_is_no_tokenizer_is_refused_by_what_it_lacks():
    with pytest.raises(UsageError, match="a function beside its module: a tokenizer has `encode`"):
        returned_parts("f", (NET, lambda texts: texts))


def test_a_dictionary_names_one_thing_to_work_on():
    assert returned_parts("f", {"model": NET, "tokenizer": Words()}).kind is ReturnedKind.TOKENIZER
    assert returned_parts("f", {"model": NET, "data": DATA, "loss": criterion}).loss is criterion
    with pytest.raises(UsageError, match="returned example and data; return one of them"):
        returned_parts("f", {"model": NET, "data": DATA, "example": EXAMPLE})
    with pytest.raises(UsageError, match="the optimizer is a int, not a function"):
        returned_parts("f", {"model": NET, "data": DATA, "optimizer": 3})


DATA_TRAINERS = TensorDataset(torch.randn(12, 4), torch.randint(0, 3, (12,)))
NAMED: Any = [{"input": x, "labels": y} for x, y in (DATA_TRAINERS[n] for n in range(12))]


def adopted(returned: Any) -> Any:
    return registry.load("models", "py").adopt(returned, "f")


def of(module: str, kind: type) -> type:
    kind.__module__ = module
    return kind


class Trainer:
    def __init__(self, optimizer=None):
        self.model, self.optimizer = nn.Linear(4, 3), optimizer

    def get_train_dataloader(self):
        return DataLoader(NAMED, batch_size=4)

    def compute_loss(self, model, inputs, return_outputs=False):
        return 2.0 * nn.functional.cross_entropy(model(inputs["input"]), inputs["labels"])

    def create_optimizer(self):
        self.optimizer = self.optimizer or torch.optim.SGD(self.model.parameters(), lr=0.1)
        return self.optimizer


of("transformers.trainer", Trainer)


class Own(Trainer):
    """A subclass, as people write for a loss of their own."""


class Lit(nn.Module):
    def __init__(self, optimizers=None):
        super().__init__()
        self.layer, self.seen, self.optimizers = nn.Linear(4, 3), [], optimizers or (lambda made: made)

    def forward(self, features):
        return self.layer(features)

    def training_step(self, batch, batch_idx):
        self.seen.append(batch_idx)
        features, labels = batch
        return {"loss": nn.functional.cross_entropy(self(features), labels)}

    def train_dataloader(self):
        return DataLoader(DATA_TRAINERS, batch_size=2)

    def configure_optimizers(self):
        return self.optimizers(torch.optim.SGD(self.parameters(), lr=0.1))


class LightningModule(Lit):
    pass


class LightningDataModule:
    def __init__(self):
        self.said = []

    def prepare_data(self):
        self.said.append("prepared")

    def setup(self, stage):
        self.said.append(stage)

    def train_dataloader(self):
        assert self.said == ["prepared", "fit"]
        return DataLoader(DATA_TRAINERS, batch_size=3)


of("lightning.pytorch.core.module", LightningModule)
of("lightning.pytorch.core.datamodule", LightningDataModule)


def batch_of(model):
    feed = model.samples.open_batches({"batch_size": 4, "num_workers": 0})
    return feed.next().tensors


@pytest.mark.parametrize("trainer", [Trainer, Own])
def test_a_trainer_brings_model_loader_loss_and_optimizer(trainer):
    mine = trainer()
    model = adopted(mine)
    tensors = batch_of(model)
    expected = 2.0 * nn.functional.cross_entropy(mine.model(tensors["input"]), tensors["labels"])
    assert torch.equal(model.loss(model.module, tensors), expected)
    assert model.forward(model.module, tensors).shape == (4, 3)
    assert isinstance(model.optimizer(model.module.parameters()), torch.optim.SGD)
    assert model.facts.own_batch_size == 4


@pytest.mark.parametrize(("data", "size"), [((), 2), ((LightningDataModule(),), 3), ((DATA_TRAINERS,), None)])
def test_a_lightning_module_trains_by_its_own_step(data, size):
    lit = LightningModule()
    model = adopted((lit, *data) if data else lit)
    tensors = next(iter(DataLoader(model.samples, 4))) if size is None else batch_of(model)
    model.module.train()
    model.loss(model.module, tensors).backward()
    assert lit.seen == [0]
    assert lit.layer.weight.grad is not None
    assert model.forward(model.module.eval(), tensors).shape == (4, 3), "in evaluation it is its forward"
    assert lit.seen == [0]
    assert isinstance(model.optimizer(model.module.parameters()), torch.optim.SGD)
    assert model.facts.own_batch_size == size
    assert model.facts.parameters == 15


@pytest.mark.parametrize(
    "optimizers",
    [lambda o: [o], lambda o: ([o], ["schedule"]), lambda o: {"optimizer": o, "lr_scheduler": "s"}, lambda o: (o,)],
)
def test_an_optimizer_may_be_configured_in_every_form(optimizers):
    model = adopted(LightningModule(optimizers))
    assert isinstance(model.optimizer(None), torch.optim.SGD)


def test_what_only_the_library_s_loop_can_do_is_refused():
    with pytest.raises(UsageError, match="2 optimizers"):
        adopted(LightningModule(lambda o: [o, o])).optimizer(None)
    by_hand: Any = LightningModule()
    by_hand.automatic_optimization = False
    with pytest.raises(UsageError, match=r"measure its fit\(\) with torchstone.window"):
        adopted(by_hand)
    other = of("lightning.pytorch.trainer", type("Trainer", (), {}))()
    with pytest.raises(UsageError, match=r"return \(LightningModule, LightningDataModule\)"):
        adopted(other)


def test_a_loss_of_its_own_goes_before_the_step():
    model = adopted((LightningModule(), DATA_TRAINERS, nn.CrossEntropyLoss()))
    tensors = next(iter(DataLoader(model.samples, 4)))
    assert model.loss(model.module.train(), tensors).dim() == 0
    assert model.module.seen == []


class Shard(DataLoader[Any]):
    def __init__(self, inner):
        self.__dict__["base_dataloader"] = inner

    def __getattr__(self, name):
        return getattr(self.base_dataloader, name)

    def __iter__(self):
        yield from self.base_dataloader


def test_the_loader_inside_of_accelerate_s_is_made_anew():
    model = adopted((nn.Linear(4, 3), Shard(DataLoader(DATA_TRAINERS, batch_size=4)), nn.CrossEntropyLoss()))
    feed = model.samples.open_batches({"batch_size": 6, "num_workers": 0})
    assert feed.next().items == 6
    assert model.facts.own_data == "Shard"

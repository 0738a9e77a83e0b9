"""Inputs that are no flat tensors: dictionaries in dictionaries, lists of tensors, objects that move themselves."""

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from torchstone.core.errors import UsageError
from torchstone.plugins import registry
from torchstone.plugins.tasks._batches import open_batches

X, Y = torch.randn(6, 4), torch.randint(0, 3, (6,))
CPU: Any = SimpleNamespace(torch_device=torch.device("cpu"))
Views = namedtuple("Views", "left right")  # noqa: PYI024  what a user's collate_fn may give


def adopted(*returned: Any) -> Any:
    return registry.load("models", "py").adopt(returned, "f")


def fed(model: Any, **configuration: Any) -> Any:
    settings = {"batch_size": 3, "feed": "loader", "num_workers": 0, **configuration}
    return open_batches(settings, model, model.samples, CPU, 0).next()


class Nested(nn.Module):
    """What people call a multi-modal model; it remembers what it was given."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.given: Any = None

    def forward(self, vision, text=None, labels=None):
        self.given = (vision, text)
        return self.layer(vision["pixels"][0])


NESTED = {"vision": {"pixels": [X, X], "mask": None, "size": "small"}, "text": (X, Y), "labels": Y}


def test_a_nested_example_reaches_the_model_as_it_was_built():
    net = Nested()
    model = adopted(net, NESTED, nn.CrossEntropyLoss())
    assert set(model.example) == {"vision.pixels.0", "vision.pixels.1", "text.0", "text.1", "labels"}
    model.loss(net, model.example).backward()
    vision, text = net.given
    assert type(vision["pixels"]) is list
    assert type(text) is tuple
    assert (vision["mask"], vision["size"]) == (None, "small")
    assert model.forward(net, model.example).shape == (6, 3)
    batch = open_batches({"batch_size": 4, "feed": "resident"}, model, None, CPU, 0).next()
    assert {len(t) for t in batch.tensors.values()} == {4}


def test_a_loss_of_module_and_batch_gets_the_batch_as_it_was_built():
    seen = []

    def loss(model, batch):
        seen.append(batch)
        return model(batch["vision"]).sum()

    model = adopted(Nested(), NESTED, loss)
    model.loss(model.module, model.example)
    assert set(seen[0]) == set(NESTED)
    assert torch.equal(seen[0]["text"][1], Y)


@pytest.mark.parametrize(
    ("batch", "same"),
    [
        ((X, Y), lambda x, y: x is X and y is Y),
        (((X, Y), Y), lambda a, y: torch.equal(a[0], X) and len(a) == 2),
        (({"x": X}, Y), lambda a, y: set(a) == {"x"}),
        ((Views(X, X), Y), lambda views, y: views.right is X),
    ],
)
def test_a_loss_whose_first_argument_is_the_model_gets_model_and_batch(batch, same):
    seen = []

    def loss(model, batch):
        seen.append(batch)
        return model.weight.sum()

    model = adopted(nn.Linear(4, 3), batch, loss)
    model.loss(model.module, model.example)
    assert same(*seen[0])


def test_items_with_structure_become_batches_with_it():
    items = [{"vision": {"pixels": [x.numpy(), x]}, "labels": int(y)} for x, y in zip(X, Y, strict=True)]

    class Data(torch.utils.data.Dataset[Any]):
        def __len__(self):
            return len(items)

        def __getitem__(self, index):
            return items[index]

    for data in (Data(), DataLoader(Data(), batch_size=2)):
        model = adopted(Nested(), data, nn.CrossEntropyLoss())
        batch = fed(model)
        assert batch.items == 3
        assert set(batch.tensors) == {"vision.pixels.0", "vision.pixels.1", "labels"}
        assert model.loss(model.module, batch.tensors).dim() == 0
        assert len(model.module.given[0]["pixels"]) == 2


class Graphs:
    """As PyTorch Geometric's batches are: nodes of all graphs together, moved by `to`."""

    def __init__(self, rows):
        self.x = torch.cat([x for x, _ in rows])
        self.y = torch.stack([y for _, y in rows])
        self.of = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(x) for x, _ in rows]))

    def to(self, device, non_blocking=False):
        return self


class Loader(DataLoader[Any]):
    """A subclass that only chooses the collate_fn, as PyTorch Geometric's does."""

    def __init__(self, data, batch_size=2):
        super().__init__(data, batch_size, collate_fn=Graphs)


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, data):
        pooled = torch.zeros(int(data.of.max()) + 1, 4).index_add_(0, data.of, data.x)
        return self.layer(pooled)


GRAPHS = [(torch.randn(n + 2, 4), torch.tensor(n % 3)) for n in range(9)]


def by_model(model, batch):
    return nn.functional.cross_entropy(model(batch), batch.y)


def test_batches_of_graphs_are_one_argument_and_counted_by_the_loader():
    model = adopted(Pooled(), Loader(GRAPHS), by_model)
    batch = fed(model, batch_size=4)
    assert batch.items == 4, "graphs, not nodes; and a loader that iterates as torch's does is made anew"
    assert model.forward(model.module, batch.tensors).shape == (4, 3)
    model.loss(model.module, batch.tensors).backward()


def test_what_cannot_be_known_of_graphs_is_asked_for():
    with pytest.raises(UsageError, match=r"the targets are in a Graphs: write the loss as def loss\(model, batch\)"):
        adopted(Pooled(), Loader(GRAPHS), nn.CrossEntropyLoss())
    with pytest.raises(UsageError, match="return a DataLoader of such batches"):
        adopted(Pooled(), (Graphs(GRAPHS),), by_model)

    class Indexed(Graphs):  # as a DataBatch is: each of its items is a graph that can be moved, too
        def __len__(self):
            return len(self.y)

        def __getitem__(self, index):
            return Graphs(GRAPHS[index : index + 1])

    with pytest.raises(UsageError, match="a Indexed is one batch: return the DataLoader that makes such batches"):
        adopted(Pooled(), Indexed(GRAPHS), by_model)

    class Stream:
        def __iter__(self):
            yield Graphs(GRAPHS)

    with pytest.raises(UsageError, match="how many items a Graphs has is not known: return a torch DataLoader"):
        adopted(Pooled(), Stream(), by_model)


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ({"x": {"y": [1, 2]}}, r"'x\.y\.0' of the example is a int, not a tensor"),
        ({"x": None, "name": ["a"]}, "there is no tensor in the example, a dict"),
        ({"x": {}}, "there is no tensor in the example, a dict"),
    ],
)
def test_what_holds_no_tensor_is_named(batch, says):
    with pytest.raises(UsageError, match=says):
        adopted(nn.Linear(4, 3), batch)


class Small(nn.Module):
    """A language model that returns (logits, loss), as nanoGPT's does."""

    def __init__(self, words=11):
        super().__init__()
        self.words, self.head = nn.Embedding(words, 8), nn.Linear(8, words)

    def forward(self, idx, targets=None):
        logits = self.head(self.words(idx))
        if targets is None:
            return logits[:, [-1], :], None
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


TOKENS = torch.randint(0, 11, (6, 5))


@pytest.mark.parametrize("data", [(TOKENS, TOKENS), torch.utils.data.TensorDataset(TOKENS, TOKENS)])
def test_a_model_that_returns_logits_and_loss_trains_on_its_own_loss(data):
    model = adopted(Small(), data)
    batch = fed(model) if model.samples is not None else SimpleNamespace(tensors=model.example)
    loss = model.loss(model.module, batch.tensors)
    assert loss.dim() == 0
    loss.backward()


def test_a_loss_of_torch_takes_the_first_of_a_tuple():
    lstm = nn.LSTM(4, 3, batch_first=True)
    model = adopted(lstm, (torch.randn(6, 5, 4), torch.randn(6, 5, 3)), nn.MSELoss())
    assert model.loss(lstm, model.example).dim() == 0

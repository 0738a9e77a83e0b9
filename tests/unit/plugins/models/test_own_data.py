"""Data that a user's function returns: what becomes of a Dataset, a DataLoader, an iterable of batches."""

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.facts import present_facts
from torchstone.core.schema.model import LoadedModel
from torchstone.execution.worker.outcome import own_lines
from torchstone.plugins import registry
from torchstone.plugins.tasks._batches import Loaded, Resident, open_batches

X, Y = torch.arange(40.0).view(10, 4), torch.arange(10)
PAIRS = TensorDataset(X, Y)
LOSS = nn.functional.cross_entropy
CPU: Any = SimpleNamespace(torch_device=torch.device("cpu"))


class Mapped(Dataset[Mapping[str, Any]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return {"x": X[index].numpy(), "labels": int(Y[index]) % 3}


class Flowing(IterableDataset[Any]):
    def __iter__(self):
        return iter(PAIRS[n] for n in range(10))


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 10)

    def forward(self, x, labels=None):
        return self.inner(x)


def adopted(data: Any, loss: Any = LOSS, module: nn.Module | None = None) -> LoadedModel:
    return registry.load("models", "py").adopt((module or nn.Linear(4, 10), data, None, loss), "f")


def feed(model: LoadedModel, **configuration: Any) -> Any:
    settings = {"batch_size": 4, "feed": "loader", "num_workers": 0, **configuration}
    return open_batches(settings, model, model.samples, CPU, 0)


def doubled(rows: list[Any]) -> Any:
    return torch.stack([2 * x for x, _ in rows]), torch.stack([y for _, y in rows])


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (PAIRS, {"input", "target"}),
        (DataLoader(PAIRS, batch_size=2, shuffle=True), {"input", "target"}),
        (Flowing(), {"input", "target"}),
        (DataLoader(Flowing(), batch_size=2), {"input", "target"}),
        (DataLoader(PAIRS, batch_size=4, sampler=SequentialSampler(PAIRS), collate_fn=doubled), {"input", "target"}),
        ([(X[:4], Y[:4]), (X[4:8], Y[4:8])], {"input", "target"}),
        ([[X[:4], Y[:4]]], {"input", "target"}),
    ],
    ids=["dataset", "loader", "flowing", "loader of flowing", "collate", "batches", "a batch"],
)
@pytest.mark.parametrize("how", ["loader", "resident"])
def test_batches_of_the_size_asked_for_go_through_module_and_loss(data, names, how):
    model = adopted(data)
    batches = feed(model, feed=how)
    assert isinstance(batches, Resident) == (how == "resident")
    for _ in range(6):  # more than an epoch
        batch = batches.next()
        assert batch.items == 4
        assert set(batch.tensors) == names
        assert model.forward(model.module, batch.tensors).shape == (4, 10)
        assert model.loss is not None
        assert model.loss is not None
        assert model.loss(model.module, batch.tensors).dim() == 0
    batches.close()


def test_items_may_be_mappings_of_arrays_and_numbers():
    model = adopted(Mapped(), module=Named())
    batch = feed(model).next()
    assert {name: tuple(t.shape) for name, tensor in batch.tensors.items() if (t := tensor) is not None} == {
        "x": (4, 4), "labels": (4,),
    }  # fmt: skip
    assert model.loss is not None
    assert model.loss(model.module, batch.tensors).dim() == 0


def test_a_loaders_own_collate_is_kept_and_its_settings_are_facts():
    model = adopted(DataLoader(PAIRS, batch_size=2, num_workers=0, collate_fn=doubled))
    assert isinstance(feed(adopted(PAIRS)), Loaded), "of a data set the loader is ours"
    batch = feed(model, batch_size=5).next()
    assert batch.items == 5
    assert torch.equal(batch.tensors["input"][:, 0], 8.0 * batch.tensors["target"])
    assert {name: value for name, value in present_facts(model.facts) if name.startswith("own_")} == {
        "own_data": "DataLoader", "own_batch_size": 2, "own_num_workers": 0, "own_pin_memory": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        [(X[:4], Y[:4])],
        type("OwnLoader", (DataLoader,), {"__iter__": lambda self: iter(list(DataLoader.__iter__(self)))})(PAIRS, 4),
    ],
    ids=["list", "subclass"],
)
def test_what_cannot_be_made_anew_is_used_as_it_is_and_other_axes_are_refused(data):
    model = adopted(data)
    assert feed(model).next().items == 4
    with pytest.raises(UsageError, match=r"used as they come, with batch_size=4: write --axis batch_size=4, or return"):
        feed(model, batch_size=2)
    with pytest.raises(UsageError, match=r"with num_workers=0: write --axis num_workers=0"):
        feed(model, num_workers=2)
    assert feed(model, num_workers=2, feed="resident").next().items == 4, "resident batches need no workers"
    assert set(model.samples.fixed) == {"batch_size", "num_workers"}


STARTED: list[int] = []


def started(worker: int) -> None:
    STARTED.append(worker)


def test_a_loader_keeps_its_sampler_its_collate_fn_and_its_worker_init_fn_with_any_workers():
    order = torch.utils.data.SubsetRandomSampler(range(8, 0, -1))
    loader = DataLoader(PAIRS, 4, sampler=order, collate_fn=doubled, num_workers=1, worker_init_fn=started)
    model = adopted(loader)
    for workers in (0, 2):
        batches = feed(model, batch_size=2, num_workers=workers, prefetch_factor=3)
        made = batches._source
        assert (made.sampler, made.worker_init_fn, made.num_workers) == (order, started, workers)
        assert (batches.queue, batches.turn) == (3 * workers, max(1, 3 * workers)), "so many are drained first"
        batch = batches.next()
        assert batch.items == 2
        assert 0 not in batch.tensors["target"], "the sampler leaves it out"
        assert torch.equal(batch.tensors["input"][:, 0], 8.0 * batch.tensors["target"])
        batches.close()
    assert loader.num_workers == 1, "the user's own stays as it is"


def test_batches_of_a_sampler_of_ones_own_stay_as_they_are_with_any_workers():
    model = adopted(DataLoader(PAIRS, batch_sampler=[[0, 1, 2], [3]]))
    assert model.samples.fixed == {"batch_size": 3}
    assert model.facts.own_batch_size == 3
    batches = feed(model, batch_size=3, num_workers=2)
    assert [batches.next().items for _ in range(4)] == [3, 1, 3, 1]
    batches.close()
    with pytest.raises(UsageError, match=r"with batch_size=3: write --axis batch_size=3"):
        feed(model, batch_size=4)


def test_items_are_counted_where_the_collate_fn_makes_other_rows_of_them():
    def joined(rows: list[Any]) -> Any:
        return torch.cat([x for x, _ in rows]).view(-1, 2), torch.zeros(2 * len(rows), dtype=torch.long)

    model = adopted(DataLoader(PAIRS, 5, collate_fn=joined), module=nn.Linear(2, 3))
    batch = feed(model, batch_size=5).next()
    assert (batch.items, batch.tensors["input"].shape) == (5, (10, 2))


def test_one_short_batch_may_be_all_there_is():
    model = adopted(DataLoader(PAIRS, batch_size=64))
    assert model.facts.own_batch_size == 10
    assert feed(model, batch_size=10).next().items == 10
    flowing = feed(adopted(DataLoader(Flowing(), batch_size=2)), batch_size=64)
    with pytest.raises(Unsupported, match="no whole batch of this size"):
        flowing.next()


def test_without_a_loss_the_target_that_a_module_does_not_take_is_left_out():
    model = adopted(PAIRS, loss=None)
    batch = feed(model).next()
    assert model.forward(model.module, batch.tensors).shape == (4, 10)
    assert model.loss is None
    both = adopted(TensorDataset(X, X), loss=None, module=nn.Bilinear(4, 4, 2))
    assert both.forward(both.module, feed(both).next().tensors).shape == (4, 2)
    alone = adopted(TensorDataset(X), loss=None)
    assert alone.forward(alone.module, feed(alone).next().tensors).shape == (4, 10)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((pair for pair in [(X, Y)]), "a generator gives its batches only once; return a list, or a DataLoader"),
        (TensorDataset(X[:0], Y[:0]), "its data set is empty"),
        (DataLoader(PAIRS, batch_sampler=[]), "its data gives no batch"),
        (DataLoader(TensorDataset(X), batch_size=2), "with a loss, the example is a pair"),
        ([("a", Y)], "'input' of the example is a str, not a tensor|the example is a str"),
    ],
    ids=["generator", "empty", "no batch", "no target", "words"],
)
def test_data_that_cannot_be_used_says_why(data, says):
    with pytest.raises(UsageError, match=says):
        adopted(data)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([None, None], r"f: list_of\[0\] is None: its __getitem__ returns nothing there"),
        ([(X[0], 1), (X[1], None)], r"list_of\[1\]\[1\] is None"),
        ([{"text": "good"}, {"text": "bad"}], r"list_of\[0\]\['text'\] is a str, not a tensor: return its tokens"),
        (
            [(X[0], 1), (X[1][:2], 1)],
            r"\[0\]\[0\] has the shape \(4,\), list_of\[1\]\[0\] \(2,\): bring all to one size",
        ),
        ([(object(), 1)] * 2, r"is a object, not a tensor or an array: make it one in __getitem__"),
        ([{"x": X[0]}, {"x": X[0], "y": 1}], r"list_of\[1\] has other parts than list_of\[0\]"),
    ],
    ids=["none", "none inside", "text", "sizes", "object", "keys"],
)
def test_items_that_make_no_batch_are_named(items, says):
    class list_of(Dataset[Any]):  # noqa: N801 - it is quoted in the message
        def __len__(self):
            return len(items)

        def __getitem__(self, index):
            return items[index]

    with pytest.raises(UsageError, match=says):
        adopted(list_of())


class Gives(nn.Module):
    """Returns a dictionary, with its own loss where it is called with the targets."""

    def forward(self, x, y=None):
        found = {"prediction": x.sum(1)}
        return found if y is None else {**found, "loss": ((found["prediction"] - y) ** 2).mean()}


def test_a_module_may_take_the_targets_itself_and_a_loss_may_be_a_dictionary():
    loss = lambda output, target: {"loss": (output["prediction"] - target).abs().mean(), "other": 1}
    for model in (adopted(PAIRS, loss=None, module=Gives()), adopted(PAIRS, loss=loss, module=Gives())):
        batch = feed(model).next()
        assert set(model.forward(model.module, batch.tensors)) == {"prediction"}
        assert model.loss is not None
        assert model.loss(model.module, batch.tensors).dim() == 0


def test_an_error_tells_what_the_model_and_the_loss_were_given():
    for target, module, says in (
        (Y + 10, nn.Linear(4, 10), r"the loss was given output float32 \(4, 10\), target int64 \(4,\) from 1\d to 1\d"),
        (Y, nn.Linear(5, 10), r"the model was given input float32 \(4, 4\)"),
    ):
        model = adopted(TensorDataset(X, target), module=module)
        assert model.loss is not None
        with pytest.raises((IndexError, RuntimeError)) as caught:
            model.loss(model.module, feed(model).next().tensors)
        (note,) = caught.value.__notes__
        assert re.match(says, note)
        assert f"  {note}\n" in own_lines(caught.value)


@pytest.mark.parametrize("data", [PAIRS, DataLoader(PAIRS)], ids=["dataset", "loader"])
def test_too_little_data_is_unsupported(data):
    with pytest.raises(Unsupported, match=r"batch_size=11: the data set has .*less than one batch"):
        feed(adopted(data), batch_size=11)


class Endless:
    def __iter__(self):
        while True:
            yield from (0, 1, 2)


def test_a_sampler_may_have_no_length():
    model = adopted(DataLoader(PAIRS, batch_size=2, sampler=Endless()))
    assert model.facts.own_batch_size == 2
    assert feed(model, batch_size=4).next().items == 4


IDS = torch.tensor([[1, 2, 3, 0], [4, 5, 0, 0]])
TENSORS = {"input_ids": IDS, "attention_mask": (IDS > 0).long(), "labels": torch.tensor([0, 1])}


class Words:
    def __call__(self, text, **how):
        return {"input_ids": [1], "attention_mask": [1]}

    def encode(self, text):
        return [1]

    def __len__(self):
        return 9


class Plain(nn.Module):
    """Takes token ids only, and answers with logits."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 2)

    def forward(self, input_ids):
        return self.table(input_ids).mean(1)


class Like(Plain):
    """Like a transformers model: keyword arguments, and an object with logits and loss."""

    config = SimpleNamespace(vocab_size=9, num_labels=2)

    def forward(self, input_ids, attention_mask=None, labels=None, **others):
        logits = self.table(input_ids).mean(1)
        return SimpleNamespace(
            logits=logits, loss=None if labels is None else nn.functional.cross_entropy(logits, labels)
        )


class Writer(nn.Module):
    """A language model."""

    config = SimpleNamespace(vocab_size=9)

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 9)
        self.seen: list[Any] = []

    def can_generate(self):
        return True

    def forward(self, input_ids, attention_mask=None, labels=None):
        self.seen.append(labels)
        logits = self.table(input_ids)
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return SimpleNamespace(logits=logits, loss=loss)


def adopted_own_text(module: nn.Module, loss: Any = None) -> LoadedModel:
    return registry.load("models", "py").adopt((module, Words(), torch.optim.SGD, loss), "f")


def batch_loss(model, batch):
    return nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"])


def output_loss(outputs, labels):
    return nn.functional.cross_entropy(outputs.logits, labels)


@pytest.mark.parametrize(
    ("module", "loss"),
    [
        (Plain(), nn.CrossEntropyLoss()), (Plain(), nn.functional.cross_entropy), (Plain(), batch_loss),
        (Like(), None), (Like(), nn.CrossEntropyLoss()), (Like(), output_loss),
    ],
)  # fmt: skip
def test_every_way_to_lose(module, loss):
    model = adopted_own_text(module, loss)
    assert model.input.kind == "text"
    assert model.input.vocabulary == 9
    assert model.tokenizer is not None
    assert model.forward(module, TENSORS).shape == (2, 2)
    assert model.loss is not None
    expected = nn.functional.cross_entropy(model.forward(module, TENSORS), TENSORS["labels"])
    assert torch.equal(model.loss(module, TENSORS), expected)


def test_a_model_that_writes_learns_its_own_tokens_without_padding():
    module = Writer()
    model = adopted_own_text(module)
    assert model.input.causal
    assert model.loss is not None
    tokens = {name: TENSORS[name] for name in ("input_ids", "attention_mask")}
    model.loss(module, tokens)
    assert torch.equal(module.seen[-1], torch.tensor([[1, 2, 3, -100], [4, 5, -100, -100]]))
    with_torchs = adopted_own_text(module, nn.CrossEntropyLoss())
    assert with_torchs.loss is not None
    assert with_torchs.loss(module, tokens).dim() == 0, "each token against the one that follows it"


def test_what_is_missing_is_told():
    model = adopted_own_text(Plain())
    assert model.loss is not None
    with pytest.raises(TypeError, match="labels"):  # its forward takes no labels, and there is no loss
        model.loss(model.module, TENSORS)
    other = adopted_own_text(Like())
    assert other.loss is not None
    with pytest.raises(UsageError, match="the data has no labels to train on"):
        other.loss(other.module, {"input_ids": IDS})


def test_named_data_needs_a_tokenizer(tmp_path):
    (tmp_path / "mine.py").write_text("import torch\ndef load(): return torch.nn.Linear(4, 3), torch.zeros(2, 4)\n")
    name = f"{tmp_path}/mine.py:load"
    workload = Workload(Task.INFER, f"py:{name}", "tsv:reviews.tsv", "sample")
    with pytest.raises(UsageError, match=r"returns no tokenizer to read tsv:reviews\.tsv with: leave out --data"):
        registry.load("models", "py").load(name, workload, {})

"""A module that comes with a tokenizer: how it is called, and what it learns from."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import LoadedModel
from torchstone.plugins import registry

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


def adopted(module: nn.Module, loss: Any = None) -> LoadedModel:
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
    model = adopted(module, loss)
    assert model.input.kind == "text"
    assert model.input.vocabulary == 9
    assert model.tokenizer is not None
    assert model.forward(module, TENSORS).shape == (2, 2)
    assert model.loss is not None
    expected = nn.functional.cross_entropy(model.forward(module, TENSORS), TENSORS["labels"])
    assert torch.equal(model.loss(module, TENSORS), expected)


def test_a_model_that_writes_learns_its_own_tokens_without_padding():
    module = Writer()
    model = adopted(module)
    assert model.input.causal
    assert model.loss is not None
    tokens = {name: TENSORS[name] for name in ("input_ids", "attention_mask")}
    model.loss(module, tokens)
    assert torch.equal(module.seen[-1], torch.tensor([[1, 2, 3, -100], [4, 5, -100, -100]]))
    with_torchs = adopted(module, nn.CrossEntropyLoss())
    assert with_torchs.loss is not None
    assert with_torchs.loss(module, tokens).dim() == 0, "each token against the one that follows it"


def test_what_is_missing_is_told():
    model = adopted(Plain())
    assert model.loss is not None
    with pytest.raises(TypeError, match="labels"):  # its forward takes no labels, and there is no loss
        model.loss(model.module, TENSORS)
    other = adopted(Like())
    assert other.loss is not None
    with pytest.raises(UsageError, match="the data has no labels to train on"):
        other.loss(other.module, {"input_ids": IDS})


def test_named_data_needs_a_tokenizer(tmp_path):
    (tmp_path / "mine.py").write_text("import torch\ndef load(): return torch.nn.Linear(4, 3), torch.zeros(2, 4)\n")
    name = f"{tmp_path}/mine.py:load"
    workload = Workload(Task.INFER, f"py:{name}", "tsv:reviews.tsv", "sample")
    with pytest.raises(UsageError, match=r"returns no tokenizer to read tsv:reviews\.tsv with: leave out --data"):
        registry.load("models", "py").load(name, workload, {})

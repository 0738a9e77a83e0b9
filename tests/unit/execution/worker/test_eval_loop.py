"""What counts as scores of classes, and what judging leaves behind."""

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from torchstone.core.schema.batch import Batch
from torchstone.core.schema.model import InputSpec
from torchstone.execution.worker.eval_loop import class_scores, judge

SPEC = InputSpec("features", classes=3)
LABELS = torch.tensor([0, 2])
SCORES = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0]])


def test_scores_are_found_in_what_models_return():
    for output in (SCORES, {"logits": SCORES}, (SCORES, None), SimpleNamespace(logits=SCORES)):
        assert class_scores(output, LABELS, SPEC) is SCORES
    assert class_scores(SCORES, None, SPEC) is None
    assert class_scores(SCORES, LABELS.float(), SPEC) is None, "targets of a regression"
    assert class_scores(torch.zeros(2, 5, 3), LABELS, SPEC) is None
    assert class_scores(SCORES, LABELS, InputSpec("text", causal=True)) is None


class Feed:
    """Two batches: one of two items, one of one."""

    def __init__(self):
        self.left = [Batch({"labels": LABELS}, 2), Batch({"labels": LABELS[:1]}, 1)]

    def next(self):
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


class Model:
    """Answers SCORES; its own loss is 7."""

    def __init__(self):
        self.module = torch.nn.Dropout()

    def answers(self, batch):
        assert not self.module.training
        return SCORES[: batch.items]

    def loss_of(self, batch):
        return 7.0


def test_the_loss_is_a_mean_over_items_and_the_model_is_left_in_train_mode():
    model: Any = Model()
    feed: Any = Feed()
    told: list[Any] = []
    timed: list[Any] = []
    quality = judge(model, feed, SPEC, lambda *both: told.append(both), lambda *both: timed.append(both))
    whole = cross_entropy(SCORES[[0, 1, 0]], torch.tensor([0, 2, 0]))
    assert quality.loss == float(whole) or abs(quality.loss - float(whole)) < 1e-6
    assert (quality.accuracy, quality.items) == (2 / 3, 3)
    assert model.module.training
    assert [items for _, items in timed] == [2, 1]
    assert told[0][1].argmax(dim=1).tolist() == [0, 1]


def test_a_users_own_loss_is_what_is_reported():
    model: Any = Model()
    feed: Any = Feed()
    assert judge(model, feed, InputSpec("own")).loss == 7.0

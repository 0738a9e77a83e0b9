"""A training that has ended, as it is printed: what it reached, its epochs, and what was predicted of them."""

import msgspec
import pytest
from results import a_training, an_epoch, metrics_of

from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.training import Epoch, Prediction
from torchstone.report.document import CommandLine, Document, Table
from torchstone.report.documents.training import training_parts
from torchstone.report.renderers.terminal import terminal

TWO = metrics_of([an_epoch(1), an_epoch(2)])
EXPECTED = Prediction(Estimate(4.0, 3.9, 4.1, 0.95, "s", "x", 3, 30), "tune", "tuned", "2026-11-21T10:00:00Z")


def training_document(run):
    return Document("training", tuple(training_parts(run, run.answer)))


def shown(metrics, epoch=None, width=100, **how):
    return terminal(training_document(a_training(metrics, epoch, **how)), width)


@pytest.mark.parametrize("weights", ["random", "pretrained", "folder"])
def test_the_answer_says_what_was_reached_and_from_which_weights(weights):
    begun = {"folder": "the folder's weights"}.get(weights, f"{weights} weights")
    run = a_training(TWO, fixed={"weights": weights})
    assert training_document(run).headline == (
        f"Trained 2 epochs from {begun} in 6.00 s: held-out accuracy 75.0 %, loss 0.5500 (epoch 2), 1,495 images/s; "
        "one training: no interval."
    )


@pytest.mark.parametrize("width", [60, 100])
def test_each_epoch_has_a_row_and_the_best_is_marked(width):
    text = shown(TWO, width=width)
    assert max(map(len, text.splitlines())) <= width
    rows = [line.split() for line in text[text.index("───") :].splitlines()[1:3]]
    assert [row[0] for row in rows] == ["1", "2"]
    assert "*" in rows[1]
    assert "*" not in rows[0]
    assert "best epoch: 2, by held-out accuracy\n" in text
    assert "took      6.00 s in all, 1.60 s of training an epoch\n" in text
    assert "folder    trained\n" in text


def test_what_to_type_to_judge_it_can_be_copied():
    document = training_document(a_training(TWO))
    assert [part.words for part in document.parts if isinstance(part, CommandLine)] == ["torchstone evaluate trained"]
    unlabelled = metrics_of([an_epoch()], final_val_accuracy=None)
    document = training_document(a_training(unlabelled))
    assert not [part for part in document.parts if isinstance(part, CommandLine)]


def test_without_held_out_data_the_loss_of_the_training_counts():
    alone = an_epoch(val_loss=None, val_accuracy=None, train_accuracy=None)
    text = shown(metrics_of([alone], final_val_accuracy=None))
    assert text.startswith("Trained 1 epoch from random weights in 6.00 s: loss 1.000 (epoch 1), ")
    assert "held-out" not in text
    assert "best epoch: 1, by loss\n" in text


def test_of_many_epochs_the_first_the_last_and_the_best_are_shown():
    metrics = metrics_of([an_epoch(number) for number in range(1, 41)], best_epoch=20)
    (table,) = (part for part in training_document(a_training(metrics)).parts if isinstance(part, Table))
    assert table.columns[0].cells == tuple(map(str, (1, 2, 3, 4, 5, 20, *range(31, 41))))


def test_an_epoch_stands_beside_what_was_predicted():
    epoch = Epoch(4.2, 0.1, 11, 176, 0.025, EXPECTED)
    text = " ".join(shown(TWO, epoch).split())
    assert "predicted 4.00 s [3.90 s, 4.10 s] an epoch by tune tuned; without the first step it took 1.025 t" in text
    counted = msgspec.structs.replace(epoch, predicted=msgspec.structs.replace(EXPECTED, items=160))
    text = " ".join(shown(TWO, counted).split())
    assert "an epoch of 160 items by tune tuned; item for item and without the first step it took 1.000 times" in text
    alone = msgspec.structs.replace(epoch, predicted=None)
    assert "predicted by no stored tune or run of these settings" in shown(TWO, alone)


def test_one_that_did_not_end_well_says_why():
    cut = metrics_of([an_epoch()], outcome="timed_out", message="after 60 s", stopped_early=None)
    assert "It ended timed_out: after 60 s." in " ".join(shown(cut).split())
    stopped = metrics_of([an_epoch()], stopped_early=3)
    assert "ended     after 1 epochs: no improvement for 3 epochs\n" in shown(stopped)
    never = shown(None, message="items make 1 steps of 1000; an epoch needs at least 2")
    assert never.startswith("Not trained: items make 1 steps of 1000; an epoch needs at least 2\n\nnet:cnn on cpu")

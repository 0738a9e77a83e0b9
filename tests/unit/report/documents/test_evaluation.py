"""A checkpoint that was judged, as it is printed: accuracy with its interval, each class, and the files."""

import pytest
from results import HOSTILE, a_quality, an_evaluation

from torchstone.report.documents.training import evaluation_document
from torchstone.report.renderers.terminal import terminal


def shown(results, width=100):
    return terminal(evaluation_document(results), width)


def test_the_accuracy_comes_first_with_its_interval():
    # Wilson's interval of 7 of 8: (0.875 + z²/16 ± z·√(0.875·0.125/8 + z²/256)) / (1 + z²/8), z = 1.96.
    assert evaluation_document(an_evaluation(a_quality())).headline == (
        "Accuracy 87.50 % (95 % confidence interval 52.91 % to 97.76 %, 8 items), loss 0.4321."
    )


def test_what_has_no_classes_has_a_loss():
    text = shown(an_evaluation(None))
    assert text.startswith("Loss 0.4321 over 8 items.\n")
    assert "accuracy" not in text


@pytest.mark.parametrize("width", [60, 100])
def test_the_figures_each_class_and_the_files(width):
    text = shown(an_evaluation(a_quality()), width)
    assert max(map(len, text.splitlines())) <= width
    assert "training  trained\nepoch     3\ndata      images:photos, split test: 8 items\n" in text
    assert "accuracy  87.50 %\n" in text
    flat = " ".join(text.split())
    assert "precision 90.00 %, recall 87.50 %, F1 87.30 % (means over classes)" in flat
    assert "speed 512 items/s, 10.0 ms a batch (median, answers read)" in flat
    assert "device mean power 250 W" in flat
    assert "predictions trained/test_results/predictions.csv" in flat
    blue = next(line for line in text.splitlines() if line.startswith("0 blue"))
    assert blue.split() == ["0", "blue", "4", "80.0", "%", "–", "85.0", "%", "4", "0"], "what its items were taken for"
    assert "→1" in text


def test_more_classes_than_a_screen_holds_are_in_the_file():
    names = [str(number) for number in range(31)]
    matrix = [[int(row == column) for column in range(31)] for row in range(31)]
    text = shown(an_evaluation(a_quality(matrix, names), items=31))
    assert "31 classes: those of each, and the confusion matrix, are in the file of metrics\n" in text
    assert "→" not in text


def test_a_class_with_a_strange_name_steers_nothing():
    assert "\x1b" not in shown(an_evaluation(a_quality(names=(HOSTILE, "red"))))

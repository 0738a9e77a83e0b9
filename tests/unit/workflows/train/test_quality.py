"""Metrics from saved predictions: scikit-learn's, and honest where something cannot be told."""

import pytest
from marks import kind_of

from torchstone.core.errors import UsageError
from torchstone.report.documents.training import confusion
from torchstone.workflows.train.evaluation import file_metrics

ROWS = "item,label,prediction,confidence\n"


@pytest.fixture
def saved(tmp_path):
    def save(text):
        path = tmp_path / "predictions.csv"
        path.write_text(ROWS + text)
        return path

    return save


def test_figures_worked_out_by_hand(saved):
    # cats: 3, two found; dogs: 2, both found; one cat taken for a dog
    quality = file_metrics(saved("0,0,0,.9\n1,0,0,.9\n2,0,1,.6\n3,1,1,.9\n4,1,1,.8\n"), ("cat", "dog"), 2)
    assert quality.accuracy == 4 / 5
    assert quality.precision == pytest.approx((1 + 2 / 3) / 2)
    assert quality.recall == pytest.approx((2 / 3 + 1) / 2)
    assert quality.confusion_matrix == ((2, 1), (0, 2))
    assert [c.support for c in quality.per_class] == [3, 2]


def test_a_class_that_never_occurs_has_no_recall_and_does_not_drag_the_means_down(saved):
    quality = file_metrics(saved("0,0,0,.9\n1,1,1,.9\n"), ("cat", "dog", "fox"), 3)
    fox = quality.per_class[2]
    assert (fox.precision, fox.recall, fox.f1, fox.support) == (None, None, None, 0)
    assert quality.f1 == 1.0


@pytest.mark.parametrize(("text", "says"), [("", "no predictions"), ("0,x,1,.5\n", "row 1"), ("0\n", "row 1")])
def test_a_file_that_holds_no_predictions_is_refused(saved, text, says):
    with pytest.raises(UsageError, match=says):
        file_metrics(saved(text), (), 0)


def test_the_picture_has_a_cell_for_each_pair_and_a_number_in_it(saved):
    (panel,) = confusion(file_metrics(saved("0,0,1,.9\n1,1,1,.9\n"), ("a" * 40, "b"), 2)).panels
    (cells, number) = panel.layers
    assert len(panel.values) == 4
    assert (kind_of(cells), number["encoding"]["text"]) == ("cells", {"field": "items"})
    assert max(len(cell["is"]) for cell in panel.values) == 24

"""The course of a training, of a search, and the parts of a predicted peak."""

import results
from marks import kinds, names_of, places_of, rows
from results import a_memory_row, an_epoch, metrics_of

from torchstone.analysis.memory_fit import MemoryAnswer
from torchstone.core.charts.vega_lite import MOST_POINTS
from torchstone.core.schema.metric import KINDS
from torchstone.core.schema.trial import Series
from torchstone.report.charts.courses import search_chart, training_charts
from torchstone.report.charts.settings import memory_chart

POWER = Series("device_power_w", "nvml", (0.0, 1.0, 2.0, 3.0), (100.0, 200.0, 210.0, 190.0), "cuda:0")


def test_lines_are_called_as_in_a_comparison_and_files_as_people_know_them():
    metrics = metrics_of([an_epoch(1), an_epoch(2)], telemetry=(POWER,))
    charts = {chart.name: chart for chart in training_charts(metrics, "A100")}
    assert list(charts) == ["training_metrics", "batch_times", "gpu_metrics"]
    loss, accuracy = charts["training_metrics"].picture.panels
    assert (loss.title, accuracy.title) == ("loss", "accuracy")
    assert names_of(loss) == ("A100 - Train", "A100 - Val")
    assert [value["y"] for value in loss.values] == [1.0, 0.5, 1.1, 0.55]
    assert charts["training_metrics"].picture.subtitle == "one training: no interval"


def test_without_held_out_items_or_classes_their_lines_are_not_there():
    epoch = an_epoch(1, val_loss=None, val_accuracy=None, train_accuracy=None)
    (loss,) = next(iter(training_charts(metrics_of([epoch]), "cpu"))).picture.panels
    assert loss.title == "loss"
    assert names_of(loss) == ("cpu - Train",)


def test_steps_stand_one_after_another_and_new_epochs_are_marked():
    metrics = metrics_of([an_epoch(n, batch_times_s=(0.1 * n, 0.2 * n)) for n in (1, 2, 3)])
    (panel,) = training_charts(metrics, "A100")[1].picture.panels
    assert [value["step"] for value in panel.values] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    divider = rows(panel, "divider")
    assert [value["step"] for value in divider] == [2, 4]


def test_a_long_training_stays_within_bounds():
    metrics = metrics_of([an_epoch(n, batch_times_s=(0.1,) * 500) for n in range(1, 101)])
    charts = training_charts(metrics, "A100")
    assert all(len(panel.values) <= MOST_POINTS for chart in charts for panel in chart.picture.panels)
    (panel,) = charts[1].picture.panels
    assert "divider" not in kinds(panel), "a hundred lines would hide the steps"


def test_a_search_is_its_probes_what_was_best_so_far_and_the_final_round():
    chart = search_chart(results.a_tuned())
    assert chart is not None
    (panel,) = chart.picture.panels
    assert names_of(panel) == ("probe of the search", "trial of the final round", "best so far")
    best = [value["best"] for value in panel.values if "best" in value]
    assert best == sorted(best)
    assert kinds(panel) == ["line", "dots"]


def test_a_predicted_peak_is_a_bar_of_its_kinds_whatever_the_card():
    rows = (a_memory_row(4), a_memory_row(4, card="another"), a_memory_row(8, gib=5.0))
    chart = memory_chart(MemoryAnswer(rows, ("batch_size",), {}))
    assert chart is not None
    (panel,) = chart.picture.panels
    assert places_of(panel) == ("gpt2, batch_size 4", "gpt2, batch_size 8")
    assert names_of(panel) == tuple(kind for kind in KINDS if kind in ("weights", "activations"))
    assert sum(value["gib"] for value in panel.values if value["settings"].endswith("8")) == 5.0


def test_what_cannot_be_predicted_is_no_bar():
    assert memory_chart(MemoryAnswer((), (), {})) is None

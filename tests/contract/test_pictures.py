"""What every picture in a Document owes its reader: tests/zoo.py has the Documents."""

import math
import re
from collections.abc import Iterator

import pytest
from marks import layers
from over import over
from zoo import ZOO

from torchstone.core.charts.drawing import as_png, as_svg
from torchstone.core.charts.vega_lite import MOST_POINTS, Panel, channels, data_of
from torchstone.report.document import Chart, Document
from torchstone.report.pictures import charts_of
from torchstone.report.renderers.png import RENDERER
from torchstone.report.rendering import rendered_files

each = over("make", ZOO)
MOST_PANELS = 40


def panels_of(document: Document) -> Iterator[tuple[Chart, Panel]]:
    for chart in charts_of(document):
        for panel in chart.picture.panels:
            yield chart, panel


def test_there_are_pictures_of_every_kind():
    """Or what follows would say nothing."""
    names = {chart.name for _, make in ZOO for chart in charts_of(make())}
    assert names >= {
        "throughput_vs_batch_size", "latency_vs_batch_size", "memory_usage", "energy_vs_batch_size",
        "scaling_efficiency", "hardware_efficiency", "time_breakdown", "pareto_front", "roofline", "batch_times",
        "latency_distribution", "gpu_metrics", "training_metrics", "confusion_matrix", "ratios", "remedies",
        "history", "memory_by_kind", "search", "loss_convergence", "comparison_throughput", "comparison_cost",
        "comparative_metrics", "throughput_vs_ranks", "A_NVIDIA_A100_SXM4_80GB_performance",
    }  # fmt: skip


@each
def test_no_panel_has_more_points_than_a_page_can_show(make):
    told = make()
    assert [chart.name for chart, panel in panels_of(told) if len(panel.values) > MOST_POINTS] == []
    assert [chart.name for chart in charts_of(told) if len(chart.picture.panels) > MOST_PANELS] == []


@each
def test_every_value_is_a_number_that_can_be_drawn(make):
    for _, panel in panels_of(make()):
        for row in data_of(panel):
            assert all(math.isfinite(value) for value in row.values() if isinstance(value, float))


@each
def test_what_has_an_interval_says_of_what_level(make):
    """A bar that nobody says what it is of is read as whatever the reader is used to."""
    for chart, panel in panels_of(make()):
        drawn = [layer for kind in ("interval", "reach", "band") for layer in layers(panel, kind)]
        lows = [layer["encoding"].get("y", layer["encoding"].get("x"))["field"] for layer in drawn]
        having = [row for low in lows for row in panel.values if row.get(low) is not None]
        if having and chart.name != "history":  # whose sentence says it
            assert re.search(r"\d %", f"{panel.subtitle} {chart.picture.subtitle}"), chart.name


@each
def test_logarithmic_axes_have_no_value_at_or_below_0(make):
    for _, panel in panels_of(make()):
        for name, own in channels(panel):
            if name in ("x", "y") and own.get("scale", {}).get("type") == "log" and "field" in own:
                assert all(row[own["field"]] > 0.0 for row in data_of(panel) if row.get(own["field"]) is not None)


@each
def test_every_picture_can_be_drawn_and_holds_nothing_that_runs(make):
    pytest.importorskip("vl_convert")
    for chart in charts_of(make()):
        svg = as_svg(chart.picture)
        assert svg.startswith("<svg")
        assert "<script" not in svg
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", svg), "XML has no such characters"


def test_the_same_picture_is_the_same_file():
    pytest.importorskip("vl_convert")
    make = dict(ZOO)["pictures: a training sweep"]
    for chart in charts_of(make())[:4]:
        assert as_svg(chart.picture) == as_svg(chart.picture)
        assert as_png(chart.picture) == as_png(chart.picture)


def test_a_folder_of_pictures_or_one_file_of_them():
    pytest.importorskip("vl_convert")
    document = dict(ZOO)["training"]()
    files = rendered_files(RENDERER, document, "run-1")
    assert list(files) == ["run-1_pictures/training_metrics.png", "run-1_pictures/batch_times.png"]
    packed = RENDERER.render(document)
    assert packed[:2] == b"PK"
    assert packed == RENDERER.render(document)

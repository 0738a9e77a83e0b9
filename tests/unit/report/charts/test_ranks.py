"""The picture over the number of ranks: which cases are joined, and where the dashed line goes."""

import charted
import msgspec
import pytest
from build import a_sweep
from marks import kinds, names_of, rows
from reported import stored_summary

from torchstone.core.charts.vega_lite import vega_lite
from torchstone.core.schema.estimate import Verdict
from torchstone.report.charts.settings import ranks_chart


@pytest.fixture
def chart_of(tmp_path):
    """The picture of cases (world_size, strategy, batch of a rank, items/s of a rank; more settings)."""

    def made(*points):
        cases = [
            ({"world_size": size, "strategy": strategy, "batch_size": batch, **dict(more)}, batch / rate)
            for size, strategy, batch, rate, *more in points
        ]
        return ranks_chart(stored_summary(tmp_path, a_sweep(cases)))

    return made


def drawn(panel):
    return {(value["curve"], value["ranks"]): value["value"] for value in panel.values}


def dashed(panel):
    guide = rows(panel, "guide")
    return {(value["curve"], value["ranks"]): value["value"] for value in guide}


def test_a_strategy_is_a_curve_and_the_dashed_line_is_as_many_times_one_process(chart_of):
    chart = chart_of((1, "none", 16, 400.0), (2, "ddp", 16, 700.0), (4, "ddp", 16, 1200.0), (2, "fsdp2", 16, 500.0))
    (panel,) = chart.picture.panels
    values = drawn(panel)
    assert set(values) == {
        ("one process, batch 16", 1), ("ddp, batch 16", 2), ("ddp, batch 16", 4), ("fsdp2, batch 16", 2),
    }  # fmt: skip
    one = values["one process, batch 16", 1]
    assert dashed(panel) == pytest.approx({("one process, batch 16", 1): one, ("one process, batch 16", 4): 4 * one})
    assert all(value["low"] < value["value"] < value["high"] for value in panel.values)
    assert kinds(panel) == ["guide", "line", "interval"]
    assert panel.title == "same batch of a rank"
    assert "95 % confidence intervals over 3 trials; dashed: in proportion to the ranks" in panel.subtitle
    share = values["ddp, batch 16", 4] / one / 4
    assert f"4 ranks (ddp, same batch of a rank) reach {100 * share:.0f} % of that" in chart.says


def test_ticks_are_the_numbers_of_ranks_at_equal_ratios(chart_of):
    chart = chart_of((1, "none", 16, 400.0), (2, "ddp", 16, 350.0), (3, "ddp", 16, 300.0), (8, "ddp", 16, 270.0))
    spec = vega_lite(chart.picture)
    (panel,) = spec["vconcat"][0]["concat"]
    assert panel["encoding"]["x"]["axis"]["values"] == [1, 2, 3, 8]
    assert (panel["encoding"]["x"]["scale"]["type"], panel["encoding"]["x"]["scale"]["base"]) == ("log", 2)
    y = panel["encoding"]["y"]
    assert y["axis"]["values"] == [500.0, 1000.0, 2000.0]
    assert y["scale"]["domain"][0] < 400.0


def test_the_same_batch_in_all_is_a_panel_of_its_own(chart_of):
    chart = chart_of((1, "none", 32, 400.0), (2, "ddp", 16, 300.0), (4, "ddp", 8, 200.0))
    (panel,) = chart.picture.panels
    assert panel.title == "same batch in all"
    assert set(drawn(panel)) == {
        ("one process, batch in all 32", 1), ("ddp, batch in all 32", 2), ("ddp, batch in all 32", 4),
    }  # fmt: skip
    assert set(dashed(panel)) == {("one process, batch in all 32", 1), ("one process, batch in all 32", 4)}


def test_without_two_numbers_of_ranks_there_is_no_picture(chart_of):
    assert chart_of((1, "none", 16, 400.0), (1, "ddp", 16, 390.0)) is None
    assert chart_of((2, "ddp", 16, 400.0), (2, "fsdp2", 16, 390.0)) is None


def test_without_one_process_the_fewest_ranks_of_a_strategy_are_the_measure(chart_of):
    chart = chart_of((2, "ddp", 16, 400.0), (4, "ddp", 16, 700.0), (4, "fsdp2", 16, 600.0))
    (panel,) = chart.picture.panels
    assert {curve for curve, _ in drawn(panel)} == {"ddp, batch 16"}, "fsdp2 has nothing to be compared with"
    assert set(dashed(panel)) == {("ddp, batch 16", 2), ("ddp, batch 16", 4)}


def test_another_setting_makes_another_curve(chart_of):
    points = [
        (ranks, "none" if ranks == 1 else "ddp", 16, 400.0, ("precision", precision))
        for precision in ("fp32", "bf16") for ranks in (1, 2)
    ]  # fmt: skip
    (panel,) = chart_of(*points).picture.panels
    assert "ddp, batch 16, precision bf16" in {curve for curve, _ in drawn(panel)}
    assert len(dashed(panel)) == 4


def test_of_many_curves_the_baselines_and_the_fastest_stay(chart_of):
    points = [(1, "none", 2**n, 100.0 * n) for n in range(1, 7)] + [(2, "ddp", 2**n, 90.0 * n) for n in range(1, 7)]
    panel = chart_of(*points).picture.panels[0]
    curves = {curve for curve, _ in drawn(panel)}
    assert len(curves) == 8
    assert {"ddp, batch 64", "ddp, batch 32"} <= curves
    assert len({curve for curve in curves if curve.startswith("one process")}) == 6
    assert "of more than 8 curves a panel the fastest; 4 more are in the tables" in panel.subtitle


def test_a_number_of_ranks_that_failed_has_its_word_and_breaks_the_line():
    chart = ranks_chart(charted.summary_of(charted.over_ranks()))
    assert chart is not None
    panel, _ = chart.picture.panels
    failure = rows(panel, "failure")
    assert failure == [{"ranks": 4, "word": "out of memory: fsdp2, batch 32"}]
    pieces = {(value["curve"], value["ranks"]): value["piece"] for value in panel.values}
    assert pieces["fsdp2, batch 32", 2] != pieces["fsdp2, batch 32", 8]
    assert pieces["ddp, batch 32", 2] == pieces["ddp, batch 32", 8]


def test_no_dashed_line_begins_where_nothing_is_drawn(tmp_path):
    cases = [({"world_size": n, "strategy": "none" if n == 1 else "ddp", "batch_size": 16}, 0.1) for n in (1, 2)]
    run = stored_summary(tmp_path, a_sweep(cases))
    doubted = [msgspec.structs.replace(case, verdict=Verdict.INVALID) for case in run.cases[:1]]
    chart = ranks_chart(msgspec.structs.replace(run, cases=(*doubted, *run.cases[1:])))
    assert chart is not None
    (panel,) = chart.picture.panels
    assert set(drawn(panel)) == {("ddp, batch 16", 2)}
    assert dashed(panel) == {}
    assert names_of(panel) == ("ddp, batch 16",), "what has no point is not in the legend"
    failure = rows(panel, "failure")
    assert failure == [{"ranks": 1, "word": "INVALID: one process, batch 16"}]

"""Single steps: their order from the warm-up on, and their distribution with the interval that its method gives."""

import math
from typing import Any

import charted
import msgspec
import pytest
import results
from build import a_case, a_run, a_trial
from marks import kinds, rows, title_of

from torchstone.core.charts.vega_lite import MOST_POINTS, Panel
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.case import Task
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.core.stats.quantile import of_one_trial
from torchstone.report.charts.cases import MOST_CASES, chosen_cases
from torchstone.report.charts.courses import sample_charts
from torchstone.report.document import Chart


def charts_of(run: Any) -> dict[str, Chart]:
    return {chart.name: chart for chart in sample_charts(charted.summary_of(run), run)}


def first(chart: Chart) -> Panel:
    return chart.picture.panels[0]


def test_steps_stand_in_the_order_of_time_and_0_is_the_end_of_the_warm_up():
    run = charted.a_charted_run(charted.cases_of((8,)), charted.machine_of(charted.A100), trials=2)
    panel = first(charts_of(run)["batch_times"])
    own = [value for value in panel.values if value["trial"] == "trial 1"]
    assert [value["step"] for value in own] == list(range(-8, 60)), "8 of the warm-up, 60 measured"
    steady = run.trials[0].values("step_time_s")
    assert [value["y"] for value in own[8:]] == pytest.approx([1e3 * time_s for time_s in steady])
    assert {tuple(row.values()) for row in rows(panel, "divider")} == {(0, "warm-up ends")}
    assert panel.subtitle == "single steps of 2 trials"


def test_without_a_warm_up_no_end_of_one_is_marked():
    panel = first(charts_of(a_run())["batch_times"])
    assert "divider" not in kinds(panel)
    assert title_of(panel, "x") == "step"


def test_a_warm_up_step_that_is_far_slower_makes_the_axis_logarithmic():
    warm = [Measurement("step_time_s", Stage.WARMUP, (5.0, 0.011))]
    panel = first(charts_of(a_run([a_trial(more=warm)]))["batch_times"])
    assert panel.channel("y")["scale"]["type"] == "log"


def test_a_step_that_is_no_number_is_left_out():
    panel = first(charts_of(a_run([a_trial([0.01] * 5 + [math.inf, math.nan])]))["batch_times"])
    assert len(panel.values) == 5


def test_of_very_many_steps_the_extremes_stay():
    times = [0.01] * 50_000
    times[31_000] = 0.5
    panel = first(charts_of(a_run([a_trial(times)]))["batch_times"])
    assert len(panel.values) <= MOST_POINTS
    assert max(value["y"] for value in panel.values) == 500.0
    assert panel.subtitle.endswith("of each stretch the extremes")


def test_of_several_trials_each_quantile_has_its_interval_over_them():
    run = charted.a_charted_run(charted.cases_of((8,), task=Task.INFER), charted.machine_of(charted.A100))
    panel = first(charts_of(run)["latency_distribution"])
    assert "band" in kinds(panel)
    assert panel.subtitle == "mean of 4 trials; band: 95 % confidence interval of each quantile over them"
    assert title_of(panel, "x") == "latency of a batch, ms"
    shares = [value["share"] for value in panel.values]
    assert shares == sorted(shares)
    assert all(value["low"] <= value["x"] <= value["high"] for value in panel.values)
    summary = charted.summary_of(run).cases[0].estimates["latency_per_batch_p50_s"]
    middle = min(panel.values, key=lambda value: abs(value["share"] - 0.5))
    assert middle["x"] == pytest.approx(1e3 * summary.value, rel=0.01)


def test_trials_that_differ_too_much_for_a_band_say_so():
    run = a_run([a_trial([0.01 * factor] * 20) for factor in (1, 4)])
    panel = first(charts_of(run)["latency_distribution"])
    assert {value["low"] for value in panel.values} == {None}
    assert panel.subtitle == "mean of 2 trials, which differ too much for an interval (wider than ±50 %)"


def test_of_one_trial_the_band_is_of_its_steps_and_named():
    run = a_run([a_trial()])
    panel = first(charts_of(run)["latency_distribution"])
    assert "Dvoretzky-Kiefer-Wolfowitz" in panel.subtitle
    expected = of_one_trial(run.trials[0].values("step_time_s"))
    assert [value["share"] for value in panel.values] == [one.share for one in expected]
    assert title_of(panel, "x") == "time of a step, ms"


def test_few_cases_are_all_shown_and_of_many_the_fastest():
    few = charted.summary_of(charted.a_training_sweep())
    assert len(chosen_cases(few)) == len({case.case_id for case in chosen_cases(few)}) == 1
    four = charted.a_charted_run(charted.cases_of((8, 16, 32, 64)), charted.machine_of(charted.A100), trials=1)
    assert len(chosen_cases(charted.summary_of(four))) == 4
    many = chosen_cases(charted.summary_of(charted.many_settings()))
    assert [case.configuration["precision"] for case in many] == ["bf16"]
    assert len(many) <= MOST_CASES


def test_what_a_tune_recommends_is_among_them():
    summary = charted.summary_of(charted.many_settings())
    slow = summary.cases[0]
    choice = msgspec.structs.replace
    tuned = results.a_tuned()
    assert isinstance(tuned.answer, TuneResult)
    told = choice(tuned.answer, recommended=choice(tuned.answer.recommended, case_id=slow.case_id))
    assert chosen_cases(choice(summary, answer=told))[0].case_id == slow.case_id


def test_failed_trials_have_no_steps():
    assert charts_of(a_run([], cases=())) == {}
    run = a_run([a_trial(case_id=a_case().case_id, measurements=())])
    assert charts_of(run) == {}

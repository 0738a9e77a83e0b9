"""Figures from hand-made trials whose answers are known, and estimates over them."""

from __future__ import annotations

import math
import random
from statistics import stdev

import pytest
from build import STEPS_S, a_trial

from torchstone.core.estimates import estimates
from torchstone.core.figures import Figures, figures
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.trial import Measurement, Series, Stage, Trial
from torchstone.core.stats.interval import over_trials
from torchstone.core.units import is_wide


def a_latency_trial(answers_s: list[float], **changes: object) -> Trial:
    facts = {"task": "infer", "dataset_items": 1000}
    return a_trial(answers_s, window="latency", items=2, facts=facts, setup={"first_step_time_s": [0.5]}, **changes)  # type: ignore[arg-type]


def counter(metric: str, per_s: float, start: float = 100.0, until_s: float = 12.0, every_s: float = 1.0) -> Series:
    at_s = tuple(i * every_s for i in range(int(until_s / every_s) + 1))
    return Series(metric, "test", at_s, tuple(start + per_s * t for t in at_s))


def gauge(metric: str, *values: float, device: str | None = None) -> Series:
    return Series(metric, "test", tuple(map(float, range(len(values)))), values, device)


def test_s1_19_inference_has_the_time_of_a_data_set_and_training_that_of_an_epoch() -> None:
    steady = {"window_time_s": [0.2]}
    for task, name, other in (
        ("infer", "dataset_time_s", "epoch_time_s"), ("generate", "dataset_time_s", "epoch_time_s"),
        ("train", "epoch_time_s", "dataset_time_s"),
    ):  # fmt: skip
        got = figures(a_trial(steady=steady, facts={"task": task, "dataset_items": 8000})).values
        assert got[name] == pytest.approx(8000 / (160 / 0.2))
        assert got["total_time_s"] == pytest.approx(0.2)
        assert other not in got


def test_rates_are_totals_over_totals() -> None:
    steady = {"tokens": [7.0] * 10, "window_time_s": [0.2], "data_wait_s": [0.001] * 9 + [0.1]}
    setup = {"flops": [2e9], "first_step_time_s": [0.7], "start_time_s": [0.1], "model_load_time_s": [0.3]}
    got = figures(a_trial(steady=steady, setup=setup, facts={"dataset_items": 8000})).values
    assert got["throughput"] == pytest.approx(160 / 0.2)
    assert got["token_throughput"] == pytest.approx(70 / 0.2)
    assert got["time_per_item_s"] == pytest.approx(0.2 / 160)
    assert got["epoch_time_s"] == pytest.approx(10.0)
    assert got["step_time_p50"] == pytest.approx(0.0105)
    assert got["step_time_mean"] == pytest.approx(sum(STEPS_S) / 10)
    assert got["achieved_flops"] == pytest.approx(2e9 / (sum(STEPS_S) / 10))
    assert (got["flops_per_step"], got["start_time_s"], got["model_load_time_s"]) == (2e9, 0.1, 0.3)
    assert got["data_wait_s"] == 0.001
    assert got["data_wait_share"] == pytest.approx(0.109 / 0.2)
    assert got["first_step_time_s"] == 0.7
    assert "time_to_first_prediction_s" not in got
    assert "energy_j" not in got


def test_latency_figures_are_order_statistics() -> None:
    got = figures(a_latency_trial([i / 1000 for i in range(1, 101)])).values
    assert got["latency_per_batch_p50_s"] == pytest.approx(0.0505)
    percentiles = [got[f"latency_per_batch_p{q}_s"] for q in (90, 95, 99)]
    assert percentiles == [0.090, 0.095, 0.099]
    assert (got["latency_per_batch_min_s"], got["latency_per_batch_max_s"]) == (0.001, 0.1)
    assert got["latency_per_item_s"] == pytest.approx(0.02525)
    assert got["time_to_first_prediction_s"] == 0.5
    assert got["throughput"] == pytest.approx(200 / 5.05)  # no throughput window: its items over its time
    assert "step_time_p50" not in got


def test_both_windows_keep_to_themselves_and_add_up_in_the_totals() -> None:
    both = a_latency_trial([0.1] * 10)
    back = a_trial([0.05] * 20, window="mine", items=2, begin_s=4.0)
    usage = Measurement("minor_faults", Stage.STEADY, (60.0,))
    got = figures(a_latency_trial([0.1] * 10, more=(*back.measurements, usage)))
    assert got.values["throughput"] == pytest.approx(40.0)
    assert got.values["latency_per_batch_p50_s"] == pytest.approx(0.1)
    assert got.values["steps"] == 30
    assert got.values["total_items"] == 60
    assert got.values["total_time_s"] == pytest.approx(2.0)
    assert got.values["minor_faults_per_step"] == pytest.approx(2.0)
    assert figures(both).values["throughput"] == pytest.approx(20.0)
    assert (got.samples["throughput"], got.samples["latency_per_batch_p50_s"]) == (20, 10)


def test_memory_and_losses() -> None:
    more = [
        Measurement("peak_allocated_bytes", Stage.STEADY, (5e9,)),
        Measurement("loss", Stage.STEADY, (2.5, 2.0, math.nan)),
    ]
    got = figures(a_trial(more=more, series=[gauge("rss_bytes", 1e9, 3e9, 2e9)])).values
    assert got["peak_allocated_bytes"] == 5e9
    assert got["peak_rss_bytes"] == 3e9
    assert got["loss_first"] == 2.5
    assert "loss_last" not in got
    more.append(Measurement("peak_rss_bytes", Stage.STEADY, (4e9,)))
    assert figures(a_trial(more=more, series=[gauge("rss_bytes", 1e9)])).values["peak_rss_bytes"] == 4e9


def test_spread_of_steps_and_losses_and_how_fast_the_loss_falls() -> None:
    losses = tuple(4.0 * math.exp(-0.01 * step) for step in range(40))
    more = [Measurement("loss", Stage.STEADY, losses)]
    steps_s = [0.1, 0.2, *[0.15] * 36, 0.3]
    got = figures(a_trial(steps_s, more=more, series=[gauge("rss_bytes", 1e9, 3e9)])).values
    assert (got["step_time_min"], got["step_time_max"]) == (0.1, 0.3)
    assert got["step_time_std"] == pytest.approx(stdev(steps_s))
    assert (got["loss_min"], got["loss_max"], got["loss_first"]) == (losses[-1], 4.0, 4.0)
    assert got["loss_mean"] == pytest.approx(sum(losses) / 40)
    assert got["loss_std"] == pytest.approx(stdev(losses))
    assert got["loss_end"] == pytest.approx(sum(losses[-8:]) / 8)
    assert got["loss_convergence_rate"] == pytest.approx(-0.01)
    assert got["loss_rate_per_1000_items"] == pytest.approx(-0.01 / 16 * 1000)
    assert got["mean_rss_bytes"] == 2e9


def test_the_last_loss_of_a_long_training_is_no_part_of_the_curve() -> None:
    losses = (*(2.0 - 0.01 * step for step in range(20)), 0.5)
    long = figures(a_trial([0.1] * 99, more=[Measurement("loss", Stage.STEADY, losses)])).values
    whole = figures(a_trial([0.1] * 20, more=[Measurement("loss", Stage.STEADY, losses)])).values
    assert long["loss_last"] == whole["loss_last"] == 0.5
    assert long["loss_end"] == pytest.approx(1.845)
    assert whole["loss_end"] == pytest.approx((sum(losses[-8:])) / 8)


def test_trials_of_one_seed_are_no_replicates_of_a_loss() -> None:
    trials = [a_trial([0.1] * 39, more=[Measurement("loss", Stage.STEADY, (2.0,) * 40)]) for _ in range(3)]
    got = estimates([figures(t) for t in trials])["loss_end"]
    assert got.value == pytest.approx(2.0)
    assert (got.low, got.high, got.trials) == (None, None, 3)
    assert got.note == "the trials repeat one training: no interval"


def test_phases_of_the_users_own_names_are_figures() -> None:
    more = [Measurement("phase_time_s", Stage.STEADY, (0.1, 0.3, 0.5), "train", "my augmentation")]
    got = estimates([figures(a_trial(more=more))] * 3)
    assert got["phase_my augmentation_s"].value == pytest.approx(0.3)
    assert got["phase_my augmentation_s"].unit == "s"


def test_phases_sum_to_the_step_of_their_pass_in_a_trial_and_over_trials() -> None:
    def cut(data: tuple[float, ...], forward: tuple[float, ...]) -> Figures:
        rest = (0.001,) * len(data)
        values = {"data": data, "forward": forward, "rest": rest}
        more = [Measurement("phase_time_s", Stage.STEADY, v, "anatomy", phase) for phase, v in values.items()]
        steps = tuple(map(sum, zip(*values.values(), strict=True)))
        more.append(Measurement("anatomy_step_time_s", Stage.STEADY, steps, "anatomy"))
        more.append(Measurement("host_time_s", Stage.STEADY, (9.0,) * len(data), "anatomy", "data"))
        return figures(a_trial(more=more))

    # Every fourth batch is late, and one trial is disturbed: medians, or geometric means, would not add up.
    trials = [
        cut((0.0, 0.0, 0.0, 0.04), (0.01,) * 4),
        cut((0.0, 0.04, 0.0, 0.0), (0.012,) * 4),
        cut((0.1,) * 4, (0.5,) * 4),
    ]
    assert trials[0].values["phase_data_s"] == pytest.approx(0.01)
    assert trials[0].values["anatomy_step_s"] == pytest.approx(0.021)
    assert trials[0].values["step_time_p50"] == pytest.approx(0.0105), "the step of the measured window is another"
    got = estimates(trials)
    parts = [got[f"phase_{phase}_s"] for phase in ("data", "forward", "rest")]
    assert sum(part.value for part in parts) == pytest.approx(got["anatomy_step_s"].value)
    assert all(part.low is not None and part.low >= 0.0 for part in parts)
    assert [name for name in got if name.startswith("phase_")] == ["phase_data_s", "phase_forward_s", "phase_rest_s"]


def test_the_interval_of_a_share_ends_at_1() -> None:
    trials = [a_trial([0.1] * 5, steady={"data_wait_s": [wait] * 5}) for wait in (0.01, 0.05, 0.09)]
    share = estimates([figures(t) for t in trials])["data_wait_share"]
    assert share.high == 1.0
    assert share.low is not None
    assert 0.0 < share.low < share.value < 1.0


def test_energy_comes_from_the_counter_between_its_readings() -> None:
    steps = [0.25] * 10
    both = [counter("device_energy_j", 40.0), gauge("device_power_w", *[90.0] * 12)]
    got = figures(a_trial(steps, series=both)).values
    assert got["energy_j"] == pytest.approx(100.0)
    assert got["average_power_w"] == pytest.approx(40.0)
    assert got["energy_per_item_j"] == pytest.approx(100.0 / 160)


def test_energy_is_integrated_power_where_there_is_no_counter() -> None:
    got = figures(a_trial([0.25] * 10, series=[gauge("device_power_w", *[90.0] * 12)])).values
    assert got["energy_j"] == pytest.approx(225.0)
    short = figures(a_trial([0.25] * 10, series=[gauge("device_power_w", *[90.0] * 4)])).values
    assert "energy_j" not in short
    assert short["average_power_w"] == 90.0


def test_energy_of_two_devices_adds_up() -> None:
    pair = [counter("device_energy_j", 40.0), counter("device_energy_j", 10.0)]
    assert figures(a_trial([0.25] * 10, series=pair)).values["energy_j"] == pytest.approx(125.0)


def test_package_energy_is_that_of_a_cpu_only() -> None:
    package = counter("package_energy_j", 8.0)
    assert figures(a_trial([0.25] * 10, series=[package])).values["energy_j"] == pytest.approx(20.0)
    beside = [package, gauge("device_utilization", *[0.5] * 6)]
    assert "energy_j" not in figures(a_trial([0.25] * 10, series=beside)).values


def test_gauges_are_read_inside_the_windows_only() -> None:
    series = [
        gauge("device_utilization", 0.0, 0.0, 0.8, 0.9, 1.0, 0.0),
        gauge("device_memory_used_bytes", 9e9, 1e9, 2e9, 3e9, 1e9, 9e9),
    ]
    got = figures(a_trial([0.25] * 10, series=series)).values
    assert got["device_utilization"] == pytest.approx(0.9)
    assert got["device_memory_used_bytes"] == 3e9
    assert got["mean_device_memory_used_bytes"] == pytest.approx(2e9)
    assert "device_utilization" not in figures(a_trial([0.1], begin_s=2.5, series=series)).values


def test_other_processes_and_steal() -> None:
    series = [counter("host_busy_s", 2.4), counter("process_cpu_s", 1.9, 0.0), counter("host_steal_s", 0.4)]
    got = figures(a_trial([0.25] * 10, series=series)).values
    assert got["other_cpu_cores"] == pytest.approx(0.5)
    assert got["steal_share"] == pytest.approx(0.05)
    assert "mean_device_memory_used_bytes" not in got, "nothing tells it"
    idle = [counter("host_busy_s", 1.0), counter("process_cpu_s", 1.1)]
    assert figures(a_trial([0.25] * 10, series=idle)).values["other_cpu_cores"] == 0.0


def test_an_empty_trial_has_no_figures() -> None:
    empty = figures(a_trial(measurements=()))
    assert empty == Figures({}, {})
    assert estimates([empty]) == {}
    assert estimates([]) == {}


def test_every_figure_is_in_the_table_and_has_samples() -> None:
    got = figures(a_latency_trial([0.1] * 10, series=[counter("device_energy_j", 40.0)]))
    assert set(got.values) == set(got.samples)
    assert set(got.values) <= set(FIGURES)


def test_estimates_take_a_value_a_trial() -> None:
    three = [figures(a_trial([s] * 10)) for s in (0.9, 1.0, 1.1)]
    got = estimates(three)["step_time_p50"]
    assert got.value == pytest.approx((0.9 * 1.0 * 1.1) ** (1 / 3))
    assert got.low is not None
    assert got.high is not None
    assert got.low < 0.8
    assert got.high > 1.2  # t with 2 degrees of freedom, whatever the steps say
    assert (got.trials, got.samples, got.unit, got.level, got.supported) == (3, 30, "s", 0.95, True)
    assert got.note is None


def test_one_trial_has_no_interval() -> None:
    got = estimates([figures(a_trial())])["throughput"]
    assert (got.low, got.high, got.note) == (None, None, "one trial: no interval")


def test_percentiles_are_those_of_trials_that_hold_them_and_say_where_none_does() -> None:
    sizes = (64, 200, 700)
    got = estimates([figures(a_latency_trial([0.1 + i * 1e-5 for i in range(n)])) for n in sizes])
    assert got["latency_per_batch_p90_s"].supported
    p95 = got["latency_per_batch_p95_s"]
    assert (p95.supported, p95.trials, p95.samples) == (True, 2, 900), "the trial of 64 says nothing of it"
    short = estimates([figures(a_latency_trial([0.1 + i * 1e-5 for i in range(n)])) for n in (40, 64)])
    assert short["latency_per_batch_p95_s"].note == "needs 130 steady samples a trial"
    assert short["latency_per_batch_p95_s"].samples == 104
    alone = estimates([figures(a_latency_trial([0.1] * 10))])["latency_per_batch_p99_s"]
    assert alone.note == "needs 662 steady samples a trial; one trial: no interval"


def test_a_figure_that_some_trials_lack_counts_those_that_have_it() -> None:
    pair = [figures(a_trial()), figures(a_trial([0.02] * 8, series=[counter("device_energy_j", 1.0)]))]
    got = estimates(pair)
    assert got["throughput"].trials == 2
    assert got["energy_j"].trials == 1


def test_generation_has_its_first_token_apart_from_the_others() -> None:
    first, each = [0.1 * n for n in range(1, 11)], [0.01] * 9 + [0.1]
    told = {"time_to_first_token_s": first, "time_per_output_token_s": each, "output_token_time_s": [0.01] * 90}
    more = [Measurement(metric, Stage.STEADY, tuple(values)) for metric, values in told.items()]
    more.append(Measurement("kv_cache_bytes", Stage.STEADY, (4096.0,)))
    facts = {"task": "generate", "new_tokens": 8}
    closed = a_trial(
        [2.0] * 10, window="latency", items=2, more=more, facts=facts, steady={"tokens": [64.0] * 10},
        setup={"first_step_time_s": [3.0]},
    )  # fmt: skip
    got = figures(closed)
    assert got.values["time_to_first_token_p50_s"] == pytest.approx(0.55)
    assert got.values["time_to_first_token_mean_s"] == pytest.approx(0.55)
    assert [got.values[f"time_to_first_token_p{q}_s"] for q in (90, 95, 99)] == pytest.approx([0.9, 1.0, 1.0])
    assert got.values["time_per_output_token_p50_s"] == 0.01
    assert got.values["time_per_output_token_p99_s"] == 0.1
    assert got.values["output_token_throughput"] == pytest.approx(10 * 2 * 8 / 20.0)
    assert got.values["token_throughput"] == pytest.approx((640 + 160) / 20.0)
    assert got.values["prompt_token_throughput"] == pytest.approx(640 / 5.5)
    assert got.values["kv_cache_bytes"] == 4096
    assert got.values["time_to_first_prediction_s"] == 3.0
    believed = estimates([got])
    assert (believed["time_to_first_token_p95_s"].supported, believed["time_per_output_token_p50_s"].supported) == (
        False, True,
    )  # fmt: skip
    back_to_back = figures(a_trial([1.0] * 10, items=2, facts=facts)).values
    assert back_to_back["output_token_throughput"] == pytest.approx(16.0)
    assert not [name for name in back_to_back if name.startswith(("time_to_first_token", "time_per_output"))]


def test_the_peak_of_resident_memory_is_no_less_than_any_reading():
    more = [Measurement("peak_rss_bytes", Stage.STEADY, (4e9,))]
    got = figures(a_trial(more=more, series=[gauge("rss_bytes", 4.001e9)])).values
    assert (got["peak_rss_bytes"], got["mean_rss_bytes"]) == (4.001e9, 4.001e9)


def of_rates(*rates: float) -> list[Figures]:
    return [figures(a_trial([1 / rate] * 10, items=1, trial_id=f"t{n}", number=n)) for n, rate in enumerate(rates)]


def test_of_trials_that_differ_too_much_the_middle_one_is_told_with_the_range() -> None:
    found = estimates(of_rates(13.4, 14.2, 13.7, 14.4, 4.2))["throughput"]
    assert found.is_wide
    assert (found.value, found.lowest, found.highest) == pytest.approx((13.7, 4.2, 14.4))
    near = estimates(of_rates(13.4, 14.2, 13.7))["throughput"]
    assert not near.is_wide
    assert near.value == pytest.approx((13.4 * 14.2 * 13.7) ** (1 / 3))


def test_no_figure_whose_trials_differ_too_much_passes_for_one_that_can_be_shown() -> None:
    dice = random.Random(4)
    for _ in range(300):
        trials = of_rates(*(10.0 * math.exp(dice.gauss(0.0, 0.25)) for _ in range(3)))
        plain = over_trials([trial.values["throughput"] for trial in trials])
        found = estimates(trials)["throughput"]
        assert found.is_wide is is_wide(plain.value, plain.low, plain.high)
    zero = [Figures({"step_time_std": each}, {"step_time_std": 10}) for each in (0.0, 0.0, 1e-9)]
    assert estimates(zero)["step_time_std"].is_wide, "a middle of 0 has no interval relative to it"


def test_phases_sum_to_the_step_however_far_trials_lie_apart() -> None:
    parts = [(0.1, 0.9), (0.9, 0.2), (0.2, 3.0)]
    each = [{"phase_data_s": a, "phase_forward_s": b, "anatomy_step_s": a + b} for a, b in parts]
    found = estimates([Figures(values, dict.fromkeys(values, 10)) for values in each])
    assert found["phase_data_s"].is_wide
    total = found["phase_data_s"].value + found["phase_forward_s"].value
    assert total == pytest.approx(found["anatomy_step_s"].value)

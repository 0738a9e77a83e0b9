"""Which trials and parts of windows were disturbed: by evidence alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from build import a_trial

from torchstone.core.figures import figures
from torchstone.core.schema.trial import Disturbance, Disturber, Series, Trial, estimation_trials, is_of_busy_machine
from torchstone.core.stats.disturbance import disturbance, disturbers, undisturbed_part

BEGIN_S, TICK_S = 2.0, 0.01
STEPS_S = [0.05] * 40  # 2 to 4 s


def counter(metric: str, rate: Callable[[float], float], tick_s: float = TICK_S) -> Series:
    """A counter read every 0.1 s of what `rate` (per second, at a moment) adds up to, in whole ticks."""
    at_s = tuple(round(1.9 + 0.1 * n, 3) for n in range(25))
    values, total = [], 0.0
    for n, at in enumerate(at_s):
        if n:
            total += sum(rate(at - 0.1 + 0.001 * k) for k in range(100)) * 0.001
        values.append(round(total / tick_s) * tick_s if tick_s else total)
    return Series(metric, "test", at_s, tuple(values))


def watched(
    others: Callable[[float], float] = lambda _: 0.0, waits: Callable[[float], float] = lambda _: 0.01,
    more: Sequence[Series] = (), steps_s: Sequence[float] = STEPS_S, **about: Any,
) -> Trial:  # fmt: skip
    """A trial of two threads on two cores. `others`: cores that other programs hold at a moment."""
    own = counter("process_cpu_s", lambda at: 2.0 - others(at))
    return a_trial(
        list(steps_s), series=[counter("host_busy_s", lambda _: 2.0), own, counter("core_wait_s", waits, 0.0), *more],
        facts={"logical_cores": 2}, **about,
    )  # fmt: skip


def found(trial: Trial, *, one_process: bool = True) -> Disturbance:
    seen = disturbance(trial, cores=2, threads=2, one_process=one_process)
    assert seen is not None
    return seen


def between(begin: float, end: float, cores: float = 1.0) -> Callable[[float], float]:
    return lambda at: cores if begin <= at < end else 0.0


def test_a_quiet_trial_is_whole():
    seen = found(watched())
    assert (seen.disturbed, seen.left_out_s, seen.causes, seen.share) == (False, (), (), 0.0)
    assert seen.cores == pytest.approx(0.0, abs=0.02)


def test_a_burst_is_cut_out_with_every_step_that_it_overlaps():
    burst = between(2.72, 2.98)
    steps_s = [0.25 if 2.7 <= 2.0 + 0.05 * n < 2.95 else 0.05 for n in range(20)]
    trial = watched(burst, lambda at: 0.5 * burst(at), steps_s=steps_s)
    seen = found(trial)
    ((begin, end),) = seen.left_out_s
    assert not seen.disturbed
    assert seen.causes == (Disturber.PROCESSES,)
    assert begin <= 2.72
    assert end >= 2.98
    kept = undisturbed_part(msgspec.structs.replace(trial, disturbance=seen))
    spoiled = sum(begin < 2.0 + sum(steps_s[: n + 1]) and end > 2.0 + sum(steps_s[:n]) for n in range(20))
    assert len(kept.values("step_time_s")) == len(kept.values("items")) == 20 - spoiled
    assert kept.values("window_time_s")[0] == pytest.approx(sum(kept.values("step_time_s")))


def test_figures_are_those_of_the_undisturbed_part():
    slow = [0.05] * 10 + [0.3] * 2 + [0.05] * 18
    trial = watched(between(2.5, 3.1), steps_s=slow)
    cut = msgspec.structs.replace(trial, disturbance=found(trial))
    assert figures(cut).values["throughput"] == pytest.approx(16 / 0.05)
    assert figures(trial).values["throughput"] < 0.75 * 16 / 0.05
    assert figures(cut).values["other_cpu_cores"] == pytest.approx(0.0, abs=0.05)


def test_where_less_than_a_quarter_is_left_the_trial_is_disturbed_as_a_whole():
    assert not found(watched(between(2.3, 2.9))).disturbed
    seen = found(watched(between(2.15, 3.6)))
    assert seen.disturbed
    assert seen.left_out_s == ()
    assert 0.7 < seen.share <= 1.0
    assert seen.cores == pytest.approx(0.8, abs=0.1)


def test_single_steps_between_bursts_are_not_chosen_among():
    """Half of the window is left, in steps of 0.2 s of which one fits between two bursts."""
    bursts = watched(lambda at: 1.0 if at % 0.5 < 0.1 else 0.0, steps_s=[0.2, 0.3] * 4)
    assert found(bursts).disturbed
    short = watched(lambda at: 1.0 if at % 0.5 < 0.1 else 0.0, steps_s=[0.05] * 40)
    assert not found(short).disturbed


def test_steps_too_long_for_the_gaps_are_not_chosen_among():
    seen = found(watched(lambda at: 1.0 if at % 0.6 < 0.2 else 0.0, steps_s=[0.5] * 4))
    assert seen.disturbed


def test_a_trial_with_loader_processes_is_judged_as_a_whole():
    assert found(watched(between(2.5, 2.9)), one_process=False).disturbed
    assert found(watched(between(2.5, 2.6)), one_process=False).disturbed, "a twentieth of its windows"
    seldom = watched(between(2.5, 2.6), steps_s=[0.02] * 300)
    assert not found(seldom, one_process=False).disturbed, "a sixtieth"


def test_waiting_counts_only_where_its_own_threads_do_not_compete():
    waits, little = between(2.5, 3.2, 0.8), between(2.5, 3.2, 0.25)
    assert found(watched(little, little)).share == pytest.approx(0.35, abs=0.11)
    assert found(watched(little)).share < 0.1
    assert found(watched(waits=waits)).share == 0.0, "nobody else was there: its own threads sleep and wake"
    assert found(watched(little, little), one_process=False).share < 0.1
    crowded = disturbance(watched(waits=waits), cores=2, threads=8, one_process=True)
    assert crowded is not None
    assert crowded.share == 0.0


def test_who_used_little_is_not_named_where_threads_waited_for_a_core():
    seen = found(watched(lambda _: 0.05, lambda _: 0.105))
    assert seen.disturbed
    assert seen.causes == (Disturber.WAITS,)
    assert disturbers([seen]) == ("waits", {})


def test_ticks_are_no_neighbour():
    dice = random.Random(0)
    for _ in range(200):
        trial = watched(lambda _: 0.02 * dice.random())
        seen = found(trial)
        assert not seen.disturbed
        assert seen.left_out_s == ()


@pytest.mark.parametrize(
    ("metric", "rate", "cause"),
    [
        ("host_steal_s", lambda _: 0.1, Disturber.STEAL),
        ("quota_wait_s", lambda _: 0.2, Disturber.QUOTA),
        ("host_swapped_bytes", lambda _: 100e6, Disturber.SWAP),
    ],
)
def test_what_lasts_disturbs_the_whole_trial(metric, rate, cause):
    seen = found(watched(more=[counter(metric, rate, 0.0)]))
    assert seen.disturbed
    assert cause in seen.causes


def test_a_stop_signal_is_cut_out():
    at_s = tuple(round(1.9 + 0.1 * n, 3) for n in range(25))
    stopped = Series("process_stopped", "test", at_s, tuple(float(2.5 < at < 2.85) for at in at_s))
    seen = found(watched(more=[stopped]))
    assert not seen.disturbed
    assert seen.causes == (Disturber.STOPPED,)
    assert sum(end - begin for begin, end in seen.left_out_s) == pytest.approx(0.4, abs=0.11)


@pytest.mark.parametrize(
    ("metric", "value", "cause"),
    [("device_other_processes", 1.0, Disturber.DEVICE_SHARED), ("device_throttled", 0.5, Disturber.DEVICE_THROTTLED)],
)
def test_others_on_the_device_and_heat(metric, value, cause):
    gauge = Series(metric, "test", (1.9, 2.5, 3.0, 4.1), (value,) * 4)
    assert cause in found(watched(more=[gauge]), one_process=False).causes


def test_a_process_that_holds_the_device_and_waits_disturbs_nothing():
    at_s = (1.9, 2.5, 3.0, 4.1)
    waiting = [
        Series("device_other_processes", "nvml", at_s, (1.0,) * 4),
        Series("device_working_processes", "nvml", at_s, (0.0,) * 4),
    ]
    assert not found(watched(more=waiting), one_process=False).disturbed


def test_others_hold_no_more_cores_than_there_are():
    series = [counter("host_busy_s", lambda _: 13.0), counter("process_cpu_s", lambda _: 2.0)]
    assert found(a_trial(STEPS_S, series=series, facts={"logical_cores": 2})).cores == 2.0


def test_without_evidence_nothing_is_said():
    assert disturbance(a_trial(STEPS_S), cores=2, threads=2, one_process=True) is None


def test_on_many_cores_a_busy_one_elsewhere_disturbs_nothing():
    trial = watched(lambda _: 1.0)
    seen = disturbance(trial, cores=64, threads=2, one_process=True)
    assert seen is not None
    assert not seen.disturbed


def of(*disturbed: bool) -> list[Trial]:
    return [
        msgspec.structs.replace(a_trial(), trial_id=f"t{n}", disturbance=Disturbance(disturbed=one, share=float(one)))
        for n, one in enumerate(disturbed)
    ]


@pytest.mark.parametrize(
    ("disturbed", "used", "busy"),
    [
        ([False] * 3, 3, False),
        ([True, False, False, False], 3, False),
        ([True, False, False], 3, True),  # fewer than three others
        ([True] * 4 + [False] * 3, 7, True),  # more disturbed than not
        ([True] * 3 + [False] * 3, 3, False),
        ([True], 1, True),
    ],
)
def test_an_estimate_rests_on_undisturbed_trials_where_enough_are_left(disturbed, used, busy):
    trials = of(*disturbed)
    assert (len(estimation_trials(trials)), is_of_busy_machine(trials)) == (used, busy)


def test_the_shorter_part_of_a_burst_that_two_intervals_see_is_left_out_too():
    burst = between(2.47, 2.58)
    trial = watched(burst, lambda at: 0.9 * burst(at) if at > 2.5 else 0.25 * burst(at))
    ((begin, end),) = found(trial).left_out_s
    assert (begin, end) == pytest.approx((2.4, 2.6))
    alone = watched(lambda at: burst(at) if at < 2.5 else 0.0, lambda at: 0.25 * burst(at) if at < 2.5 else 0.0)
    assert found(alone).left_out_s == (), "as much as daemons make, where no burst is beside it"

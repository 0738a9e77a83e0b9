"""Checks of the steps themselves: what these say, and when they say nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from build import a_case, a_machine, a_run, a_trial
from faults.record_mutants import same_time_for_every_batch

from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Measurement, Series, Stage, Trial
from torchstone.plugins import registry

CUDA = a_case(placement=Placement("cuda"))


def look(check: str, run: Run) -> list[Finding]:
    return list(registry.load("checks", check).look(run))


def noisy(levels: Sequence[float], seed: int, sd: float = 0.01) -> list[float]:
    rng = random.Random(seed)
    return [level * math.exp(rng.gauss(0.0, sd)) for level in levels]


def three(levels: Sequence[float], **how: object) -> Run:
    return a_run([a_trial(noisy(levels, n), number=n, **how) for n in range(3)])  # type: ignore[arg-type]


def on_cuda(levels: Sequence[float], **how: object) -> Run:
    trials = [a_trial(noisy(levels, n), number=n, case_id=CUDA.case_id, **how) for n in range(3)]  # type: ignore[arg-type]
    return a_run(trials, cases=[CUDA], machine=a_machine())


def test_modes_are_steps_that_alternate() -> None:
    found = look("several_modes", three([0.01] * 7 + [0.014] * 5 + [0.01] * 9 + [0.014] * 6 + [0.01] * 8 + [0.014] * 9))
    assert [f.severity for f in found] == [Severity.WARNING]
    assert "14.0 ms" in found[0].message
    assert not look("several_modes", three([0.01] * 60))
    assert not look("several_modes", three([0.01] * 30 + [0.014] * 30)), "that is drift"
    assert not look("several_modes", three([0.01, 0.014] * 10)), "too few to tell"
    assert not look("several_modes", three([*[0.01] * 57, 0.03, 0.03, 0.03])), "spikes"


def test_modes_of_the_batches_are_no_doubt() -> None:
    cyclic = look("several_modes", three([0.01, 0.014, 0.01, 0.014] * 15))
    assert [f.severity for f in cyclic] == [Severity.INFO]
    levels = [0.014 if n % 7 < 3 else 0.01 for n in range(60)]
    more = {"items": [24.0 if level > 0.012 else 16.0 for level in levels]}
    assert not look("several_modes", three(levels, steady=more))


def test_modes_beside_a_busy_neighbour_are_its_own() -> None:
    at_s = tuple(map(float, range(12)))
    busy = [Series("host_busy_s", "t", at_s, tuple(2.0 * t for t in at_s)),
            Series("process_cpu_s", "t", at_s, tuple(1.0 * t for t in at_s))]  # fmt: skip
    levels = [0.14 if n % 7 < 3 else 0.1 for n in range(60)]
    assert look("several_modes", three(levels))
    assert not look("several_modes", three(levels, series=busy))


def test_a_first_step_must_stand_out_in_most_trials() -> None:
    assert "a typical one" in look("warmup_left_in", three([0.4] + [0.01] * 30))[0].message
    assert "the first 4 steps" in look("warmup_left_in", three([0.4] * 4 + [0.01] * 30))[0].message
    one = a_trial(noisy([0.4] + [0.01] * 30, 0))
    assert not look("warmup_left_in", a_run([one, *[a_trial(noisy([0.01] * 31, n)) for n in (1, 2)]]))
    assert not look("warmup_left_in", a_run([one])), "chance, in one trial of ours"
    assert not look("warmup_left_in", three([0.02] + [0.01] * 30))
    assert not look("warmup_left_in", three([0.4] + [0.01] * 15 + [0.35] + [0.01] * 14))
    fit = Procedure(fit=Fit())
    epochs = [a_trial(noisy([0.4] + [0.01] * 30, n), number=n) for n in range(3)]
    assert not look("warmup_left_in", a_run(epochs, procedure=fit))


def test_waits_for_a_starved_loader_are_not_a_device() -> None:
    levels = [0.001, 0.001, 0.001, 0.09] * 10
    assert look("not_synchronised", on_cuda(levels))
    waits = {"data_wait_s": [0.088 if level > 0.05 else 0.0 for level in levels]}
    assert not look("not_synchronised", on_cuda(levels, steady=waits))
    assert not look("not_synchronised", three(levels)), "a CPU runs behind nobody"


@pytest.mark.parametrize("levels", [[0.001] * 4 + [0.01] * 36, [0.001, 0.001, 0.001, 0.03] * 10], ids=["queue", "few"])
def test_steps_with_more_to_do_may_take_longer(levels: list[float]) -> None:
    assert look("not_synchronised", on_cuda(levels))
    tokens = {"tokens": [1e5 * level for level in levels]}
    assert not look("not_synchronised", on_cuda(levels, steady=tokens)), "texts of one seed, short ones first"
    assert look("not_synchronised", on_cuda(levels, steady={"tokens": [512.0] * len(levels)}))


def test_equal_times_of_all_batches_are_a_launch_only_where_the_work_would_take_longer() -> None:
    unknown, small = (look("not_synchronised", same_time_for_every_batch(flops)) for flops in (None, 1e6))
    for found in (unknown, small):
        assert [f.severity for f in found] == [Severity.INFO] * 3
        assert "it may be the launch time" in found[0].message
    assert [f.severity for f in look("not_synchronised", same_time_for_every_batch())] == [Severity.WARNING] * 3


def test_a_window_has_no_time_that_is_in_no_step() -> None:
    found = look("not_synchronised", on_cuda([0.001] * 40, steady={"window_time_s": [0.4]}))
    assert [f.severity for f in found] == [Severity.ERROR]
    assert "the device was still working" in found[0].message
    on_cpu = look("not_synchronised", three([0.001] * 40, steady={"window_time_s": [0.4]}))
    assert "belongs to no step" in on_cpu[0].message
    assert not look("not_synchronised", three([0.001] * 40, steady={"window_time_s": [0.045]}))
    assert not look("not_synchronised", three([1e-5] * 8, steady={"window_time_s": [0.001]})), "what the loop takes"


@pytest.mark.parametrize(("factor", "fires"), [(1.2, False), (2.0, False), (8.0, True)])
def test_a_step_that_is_waited_for_takes_little_longer(factor: float, fires: bool) -> None:
    warm = [Measurement("step_time_s", Stage.WARMUP, tuple(noisy([0.01 * factor] * 12, 9)))]
    assert bool(look("not_synchronised", on_cuda([0.01] * 40, more=warm))) is fires


def test_copies_are_told_from_equal_short_windows() -> None:
    steps = noisy([0.01] * 30, 1)
    copy = look("copied_values", a_run([a_trial(steps, trial_id="a"), a_trial(steps, trial_id="b", number=1)]))
    assert [f.severity for f in copy] == [Severity.ERROR]
    assert "those of another trial" in copy[0].message
    assert not look("copied_values", a_run())
    facts = {"claimed_throughput": 5.0, "claimed_step_time_mean": 0.2, "claimed_loss_last": 1.1}
    rows = [a_trial((), trial_id=f"t{n}", number=n, facts=facts) for n in range(2)]
    assert "all its figures are identical to those of another trial" in look("copied_values", a_run(rows))[0].message
    equal = look("copied_values", a_run([a_trial([0.01] * 30)]))
    assert [f.severity for f in equal] == [Severity.WARNING]
    assert not look("copied_values", three([0.01] * 30))


def test_a_few_first_touches_are_no_swapping() -> None:
    def faults(count: float, steps: int) -> Trial:
        return a_trial([0.01] * steps, steady={"major_faults": [count]})

    assert "50 major page faults" in look("swapping", a_run([faults(50, 100)]))[0].message
    assert not look("swapping", a_run([faults(15, 10)]))
    assert not look("swapping", a_run([faults(50, 1000)]))


def test_batches_are_as_large_as_the_case_says() -> None:
    assert "processed 8 items, but its case has 16" in look("wrong_rate", a_run([a_trial(items=8)]))[0].message
    assert not look("wrong_rate", a_run([a_trial(items=7, facts={"unreadable_items": 1})]))
    assert not look("wrong_rate", a_run([a_trial(items=8, facts={"dataset_items": 8})]))
    assert not look("wrong_rate", a_run([a_trial(steady={"items": [16.0, 4.0] * 5})])), "the last batch of an epoch"

"""What is claimed against what was measured: each check names the mistake, or is quiet."""

from __future__ import annotations

import math
from typing import Any

import pytest
from build import a_case, a_run, a_trial
from faults.record_mutants import BATCH, STEPS, a_claiming, losses, own, phases, said

from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import IMPORTED, Run
from torchstone.core.schema.trial import Series, Status
from torchstone.plugins import registry


def look(check: str, run: Run) -> list[Finding]:
    return list(registry.load("checks", check).look(run))


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (STEPS, "the items of all 700 steps were divided by the time of one step"),
        (BATCH, "the batch size counted twice"),
        (1 / BATCH, "batches were counted instead of items"), (128, "tokens were counted instead of sequences"),
        (1e3, "milliseconds were read as seconds"), (1e-3, "seconds were read as milliseconds"),
        (60, "it is a rate per minute"),
    ],
)  # fmt: skip
def test_a_wrong_rate_has_its_mistake_named(factor: float, words: str) -> None:
    found = look("wrong_rate", a_claiming({"throughput": factor}))
    assert [f.severity for f in found] == [Severity.ERROR]
    assert words in found[0].message


@pytest.mark.parametrize("factor", [1.0, 0.99, 1.015, 0.7])
def test_a_rate_may_be_rounded_and_hold_the_time_between_steps(factor: float) -> None:
    assert not look("wrong_rate", a_claiming({"throughput": factor}))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"count": 2}, "only one of several devices was counted"),
        ({"task": Task.TRAIN, "configuration": {"grad_accumulation": 2}}, "accumulated batches were counted once"),
    ],
)
def test_a_half_is_told_where_two_were_counted_once(how: dict[str, Any], words: str) -> None:
    (found,) = look("wrong_rate", a_claiming({"throughput": 0.5}, **how))
    assert (found.severity, words in found.message) == (Severity.ERROR, True)
    for between in (0.503, 0.52, 0.6):
        assert not look("wrong_rate", a_claiming({"throughput": between}, **how)), "the time between steps is in it"
    assert not look("wrong_rate", a_claiming({"throughput": 0.5001})), "nothing was two"


def test_a_rate_of_one_process_or_of_several_is_not_judged() -> None:
    assert not look("wrong_rate", a_claiming({"throughput": 4.0}, count=4, facts={"rate_unclear": True}))


def test_a_rate_that_nothing_explains_is_a_warning() -> None:
    found = look("wrong_rate", a_claiming({"throughput": 1.37}))
    assert [f.severity for f in found] == [Severity.WARNING]
    assert "1.37 times as much" in found[0].message
    low = look("wrong_rate", a_claiming({"throughput": 0.3}))
    assert "30 % of it" in low[0].message


def test_a_summary_of_other_steps_is_told_with_its_unit() -> None:
    slipped = look("wrong_summary", a_claiming({"latency_per_batch_mean_s": 1e3}))
    assert [f.severity for f in slipped] == [Severity.ERROR, *[Severity.ERROR] * (len(slipped) - 1)]
    assert "milliseconds and seconds were mixed up" in slipped[0].message
    assert not look("wrong_summary", a_claiming({"latency_per_batch_p90_s": 1.001, "total_time_s": 1.4}))
    error = look("wrong_summary", a_claiming({"latency_per_batch_std_s": STEPS**-0.5}))
    assert "that is the standard error of the mean" in error[0].message


def test_order_is_told_of_the_first_pair_that_has_none() -> None:
    found = look("out_of_order", losses(min=2.0, max=1.0, mean=1.5)())
    assert [f.message for f in found] == ["loss: min (2.000) is above max (1.000)"]
    assert not look("out_of_order", losses(min=1.0, max=2.0, mean=1.5, std=0.3)())
    assert not look("out_of_order", losses(min=1.0, max=1.0, mean=1.0, std=0.0)())


def test_phases_of_inference_need_no_optimizer() -> None:
    assert not look("phases_differ", phases(10.0, Task.INFER, data=2.0, forward=8.0)())
    assert not look("phases_differ", phases(10.0, data=2.0, forward=3.0, backward=4.0, optimizer=1.0)())
    assert not look("phases_differ", phases(36.37, Task.INFER, data=5.23, forward=31.12)()), "rounded to 0.01 ms"
    training = look("phases_differ", phases(10.0, data=2.0, forward=3.0, backward=5.0)())
    assert "the optimizer step is in no phase" in training[0].message


def test_a_peak_is_that_of_the_card_and_its_precision() -> None:
    sparse = look("faster_than_peak", said(peak_flops=624e12)())
    assert "(with 2:4 sparsity); the dense peak is 312 TFLOP/s" in sparse[0].message
    assert not look("faster_than_peak", said(peak_flops=312e12)())
    assert not look("faster_than_peak", said(peak_flops=271e12)()), "a measured peak is below it"
    winograd = look("faster_than_peak", a_claiming({"achieved_flops": 4.0}))
    assert [f.severity for f in winograd] == [Severity.WARNING]
    assert not look("faster_than_peak", a_claiming({"achieved_flops": 9.0, "mfu": 0.1}, device=None))


def test_energy_is_power_times_time() -> None:
    assert not look("impossible_energy", a_claiming({"energy_j": 1.03, "energy_per_item_j": 1.03}))
    found = look("impossible_energy", a_claiming({"energy_j": 1 / 3600}))
    assert "Wh read as J" in found[0].message
    over = look("impossible_energy", a_claiming(facts={"power_limit_w": 250.0}))
    assert "average power is 300 W, but its power limit is 250 W" in over[0].message
    assert not look("impossible_energy", a_claiming(facts={"power_limit_w": 290.0}))


@pytest.mark.parametrize(("drawn", "limit", "fires"), [((300.0,), 250.0, True), ((180.0, 320.0), 250.0, False),
                                                       ((300.0,), 0.0, False), ((2500.0,), 0.0, True)])  # fmt: skip
def test_the_mean_power_is_held_below_the_limit_that_the_driver_tells(
    drawn: tuple[float, ...], limit: float, fires: bool
) -> None:
    at_s = tuple(0.5 * i for i in range(24))
    watts = drawn * (24 // len(drawn))
    told = {"device_power_w": watts, "device_power_limit_w": (limit,) * 24}
    gauges = [Series(metric, "nvml", at_s, values) for metric, values in told.items()]
    silent = {"average_power_w": None, "energy_j": None, "energy_per_item_j": None}
    assert bool(look("impossible_energy", a_claiming(silent, series=gauges))) is fires


def test_a_name_and_its_memory_agree_within_the_drivers_share() -> None:
    names = {"NVIDIA A100-SXM4-80GB": 79.3, "NVIDIA H100 80GB HBM3": 79.6, "Tesla T4": 15.0, "NVIDIA GH200 480GB": 95.6}
    for name, gib in names.items():
        card = DeviceInfo("cuda", "cuda", "NVIDIA", 0, name, int(gib * 2**30))
        assert not look("device_unclear", a_claiming(device=card))
    mig = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10 * 2**30)
    assert not look("device_unclear", a_claiming(device=mig))


def test_advice_knows_whose_result_it_is() -> None:
    assert "torchstone run" in look("few_trials", _one(a_claiming()))[0].advice
    assert "--trials" not in look("few_trials", _one(a_claiming()))[0].advice


@pytest.mark.parametrize(
    ("isolation", "typed", "shown"), [("auto", "--axis ", True), ("inline", "", True), (IMPORTED, "", False)]
)
def test_advice_is_typed_only_where_something_can_be_typed(isolation: str, typed: str, shown: bool) -> None:
    procedure = Procedure(isolation=isolation)
    case = a_case({"precision": "fp16"})
    lost = a_trial(case_id=case.case_id, steady={"loss": [math.nan]})
    (nan,) = look("nan_loss", a_run([lost], cases=[case], procedure=procedure))
    assert f"with {typed}precision=bf16" in nan.advice
    ended = [a_trial(), a_trial(status=Status.OUT_OF_MEMORY), a_trial(status=Status.CRASHED)]
    (memory,) = look("out_of_memory", a_run(ended, procedure=procedure))
    assert memory.advice.startswith(f"try {typed}batch_size=8")
    (failed,) = look("failed_trials", a_run(ended, procedure=procedure))
    assert ("torchstone show" in failed.advice) is shown
    short = look("few_samples", a_run([a_trial([0.1])], procedure=procedure))[0].advice
    drifting = look("drift", a_run([a_trial([0.02 - 0.0001 * i for i in range(100)])] * 3, procedure=procedure))[0]
    words = {"auto": ("--within 10m", "--warmup 50"), "inline": ("budget_s=20", "warmup=50")}
    if isolation in words:
        assert words[isolation][0] in short
        assert words[isolation][1] in drifting.advice
    else:
        assert "--" not in short + drifting.advice


def _one(run: Run) -> Run:
    return Run(run.head, run.trials[:1], (), run.end)


def test_equal_tokens_in_two_formats_are_no_setting_without_effect() -> None:
    both = [({"batch_size": 8, "precision": precision}, (123.0, 456.0)) for precision in ("fp32", "bf16")]
    assert look("setting_without_effect", own(both)())
    assert not look("setting_without_effect", own(both, Task.GENERATE)()), "the likeliest token may be the same"


def test_steps_of_no_time_are_no_reason_to_fail() -> None:
    facts = {"claimed_throughput": 200.0, "claimed_step_time_mean": 0.1}
    run = a_run([a_trial([0.0] * 5, facts=facts)], procedure=Procedure(isolation=IMPORTED))
    (found,) = look("wrong_rate", run)
    assert "1.25 times as much" in found.message

"""nan_loss, fingerprint_moved, timer_too_coarse, impossible: can these values be?"""

from __future__ import annotations

import math

import pytest
from build import STEPS_S, a_case, a_run, a_trial

from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Stage, Status, Trial
from torchstone.plugins import registry


def look(check: str, run: Run) -> list[Finding]:
    return list(registry.load("checks", check).look(run))


def with_values(metric: str, *values: float, **changes: str) -> Trial:
    return a_trial(more=[Measurement(metric, Stage.STEADY, values)], **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_nan_loss_is_an_error(lost: float) -> None:
    found = look("nan_loss", a_run([with_values("loss", 2.0, lost), with_values("loss", 2.0, 1.9)]))
    assert [f.severity for f in found] == [Severity.ERROR]
    assert "in 1 of 2 trials" in found[0].message
    assert not look("nan_loss", a_run([with_values("loss", 2.0, 1.9)]))


def test_nan_loss_advises_by_the_configuration() -> None:
    cures = (({"precision": "fp16"}, "precision=bf16"), ({"learning_rate": 0.1}, "learning_rate=0.01"))
    for configuration, word in cures:
        case = a_case(configuration)
        trial = with_values("loss", math.nan, case_id=case.case_id)
        assert word in look("nan_loss", a_run([trial], cases=[case]))[0].advice


@pytest.mark.parametrize(
    ("mean", "severity", "said"),
    [
        (math.nan, Severity.ERROR, "NaN in 1 of 2 trials"),
        (math.inf, Severity.WARNING, "infinite in 1 of 2 trials"),
        (-math.inf, Severity.WARNING, "infinite in 1 of 2 trials"),
    ],
)
def test_an_output_that_is_no_number_is_found_whatever_the_data(mean: float, severity: Severity, said: str) -> None:
    for data in ("synthetic", "example", "loader:DataLoader"):
        case = a_case(task=Task.INFER, data=data)
        prints = [with_values("fingerprint", one, 1.0, case_id=case.case_id) for one in (0.1, mean)]
        (found,) = look("nan_output", a_run(prints, cases=[case]))
        assert (found.severity, found.subject) == (severity, case.case_id)
        assert said in found.message
        assert not look("nan_output", a_run(prints[:1], cases=[case]))
        assert not look("constant_output", a_run(prints, cases=[case])), "it is said once"
    half = a_case({"precision": "fp16"}, task=Task.INFER)
    trial = with_values("fingerprint", math.nan, math.nan, case_id=half.case_id)
    assert "precision=bf16" in look("nan_output", a_run([trial], cases=[half]))[0].advice
    assert not look("nan_output", a_run([with_values("fingerprint", math.nan)])), "of a training the loss tells"


def test_fingerprint_moved_shows_both_values() -> None:
    same, moved = with_values("fingerprint", 2.3, 2.2), with_values("fingerprint", 2.3, 2.21)
    found = look("fingerprint_moved", a_run([same, same, moved]))
    assert "2.20000 in one, 2.21000 in another" in found[0].message
    assert not look("fingerprint_moved", a_run([same, with_values("fingerprint", 2.3001, 2.2), a_trial()]))
    assert not look("fingerprint_moved", a_run([same]))
    near_0 = [with_values("fingerprint", mean, 1.0) for mean in (1e-9, -1e-9)]
    assert not look("fingerprint_moved", a_run(near_0))
    lost = with_values("fingerprint", math.nan, 2.2)
    assert look("fingerprint_moved", a_run([same, lost]))
    assert not look("fingerprint_moved", a_run([lost, lost]))


@pytest.mark.parametrize(("seeds", "fires"), [((1, 1), True), ((1, 2), False), ((1, 2, 1), True)])
def test_only_trials_of_one_seed_are_held_to_each_other(seeds: tuple[int, ...], fires: bool) -> None:
    values = (2.3, 2.2, 2.1)
    trials = [
        a_trial(more=[Measurement("fingerprint", Stage.STEADY, (value,))], facts={"seed": seed})
        for value, seed in zip(values, seeds, strict=False)
    ]
    found = look("fingerprint_moved", a_run(trials))
    assert [one.values["seed"] for one in found] == [1] * fires


def test_timer_too_coarse_compares_the_median_step() -> None:
    found = look("timer_too_coarse", a_run([a_trial(facts={"clock_resolution_s": 0.001})]))
    assert "10.5 ms" in found[0].message
    assert "batch_size=256" in found[0].advice
    assert not look("timer_too_coarse", a_run([a_trial(facts={"clock_resolution_s": 1e-7})]))
    assert not look("timer_too_coarse", a_run())


def test_impossible_finds_contradictions() -> None:
    short = look("impossible", a_run([a_trial(steady={"window_time_s": [0.1]})]))
    assert [f.severity for f in short] == [Severity.ERROR]
    assert "sum to" in short[0].message
    for bad in (0.0, -0.01, math.nan):
        found = look("impossible", a_run([a_trial([*STEPS_S, bad], steady={"window_time_s": [1.0]})]))
        assert "not a positive time" in found[0].message
    assert not look("impossible", a_run())
    assert not look("impossible", a_run([a_trial(steady={"window_time_s": [0.109]})]))
    assert not look("impossible", a_run([a_trial([0.1, 0.2], window="latency")]))


def test_failed_trials_are_not_looked_at() -> None:
    broken = a_trial([-1.0], status=Status.CRASHED, more=[Measurement("loss", Stage.STEADY, (math.nan,))])
    for check in registry.names("checks"):
        found = [(f.check, f.severity) for f in look(check, a_run([broken]))]
        assert found == ([("nan_loss", Severity.ERROR)] if check == "nan_loss" else []), "its loss is why it failed"


def test_nan_loss_looks_at_what_another_tool_says_too() -> None:
    (found,) = look("nan_loss", a_run([a_trial(facts={"claimed_loss_last": math.nan, "claimed_loss_first": 2.3})]))
    assert "in 1 of 1 trials" in found.message
    assert not look("nan_loss", a_run([a_trial(facts={"claimed_loss_last": 1.2})]))

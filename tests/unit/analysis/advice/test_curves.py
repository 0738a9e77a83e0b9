"""Measured cases, read: which of them make a curve, and whose phases are told."""

from pathlib import Path

import msgspec
import pytest
from build import a_sweep

from torchstone.analysis.advice.curves import (
    advise,
    curve_of,
    curves,
    ran_out,
    read_memory,
    read_phases,
    read_single_items,
)
from torchstone.analysis.summary import summarize
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.trial import Status
from torchstone.report.diagnosis_messages import advice_text
from torchstone.storage.query import entry_of

POINTS = [
    ({"batch_size": b, "precision": p, "learning_rate": b * 1e-5}, 0.01 + 1e-4 * b)
    for b in (8, 64, 512) for p in ("fp32", "bf16")
]  # fmt: skip


def summary(points=POINTS, **settings):
    return summarize(entry_of(a_sweep(points, **settings), Path("x")))


def test_a_curve_is_of_cases_that_differ_in_batch_size_and_the_learning_rate_that_follows_it():
    run = summary()
    curve = curve_of(run.cases[0], run.cases, run.machine)
    assert curve is not None
    assert [p.batch for p in curve.points] == [8, 64, 512]
    assert curve.points[2].memory_share == 512e7 / 80e9
    assert curve.points[0].mean is not None
    assert curve.points[0].mean.trials == 3
    assert [case.configuration["precision"] for case, _ in curves(run.cases, run.machine)] == ["fp32", "bf16"]


def test_learning_rates_that_vary_by_themselves_are_curves_apart():
    points = [
        ({"batch_size": b, "learning_rate": rate}, 0.01 + 1e-4 * b) for b in (8, 64, 512) for rate in (1e-4, 1e-3)
    ]
    run = summary(points)
    curve = curve_of(run.cases[1], run.cases, run.machine)
    assert curve is not None
    assert [p.batch for p in curve.points] == [8, 64, 512]
    assert [case.configuration["learning_rate"] for case, _ in curves(run.cases, run.machine)] == [1e-4, 1e-3]
    alone = summary([({"batch_size": 8, "learning_rate": rate}, 0.01) for rate in (1e-4, 1e-3, 1e-2)])
    assert curves(alone.cases, alone.machine) == []


def test_a_case_that_failed_is_no_point_and_two_points_are_no_curve():
    run = summary(status={0: Status.OUT_OF_MEMORY})
    assert curve_of(run.cases[0], run.cases, run.machine) is None
    assert len(curves(run.cases, run.machine)) == 1


def test_phases_are_read_with_what_the_case_has():
    run = summary(
        [({"batch_size": 8, "num_workers": 2, "pin_memory": True}, 0.1)], phases={"data": 0.5, "forward": 0.5}
    )
    data = next(one for one in read_phases(run.cases[0], run) if one.seen[-1].id == "loader")
    remedies = {one.id: one.values for one in data.remedies}
    assert remedies["num_workers"] == {"workers": (4, 8)}, "up to the 8 cores of the host"
    assert "pin_memory" not in remedies
    assert read_phases(summary().cases[0], run) == []


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (512, "6.4 % of the device's, less than the usual 60 to 80 %. Try: a larger batch, if throughput"),
        (5600, "70.0 % of the device's, within the usual 60 to 80 %"),
        (6800, "85.0 % of the device's, more than the usual 60 to 80 %"),
        (7600, "95.0 % of the device's, more than the usual 60 to 80 %; likely to run out. Causes: large batch"),
    ],
)
def test_s2_21_and_31_how_full_the_memory_is_stands_beside_the_usual_band(batch, said):
    run = summary([({"batch_size": batch}, 0.1)])
    (told,) = read_memory(run.cases[0], run)
    assert advice_text(told).startswith(f"peak memory is {said}")
    on_the_host = msgspec.structs.replace(run.cases[0], placement=Placement("cpu"))
    assert read_memory(on_the_host, run) == [], "a process on the host is not meant to fill its memory"


@pytest.mark.parametrize(("batches", "told"), [((1,), True), ((1, 8), False), ((8,), False)])
def test_a_training_of_single_items_is_told_so_where_no_larger_batch_was_measured(batches, told):
    run = summary([({"batch_size": batch}, 0.1) for batch in batches])
    said = read_single_items(run.cases[0], run)
    assert bool(said) is told
    assert all([remedy.id for remedy in one.remedies] == ["batch_sizes", "tune_batch_size"] for one in said)


@pytest.mark.parametrize(("faster", "told"), [(1.0, False), (1.4, False), (4.0, True), (0.25, True)])
def test_phases_of_other_steps_than_those_of_the_rate_are_said_to_be_so(faster, told):
    run = summary([({"batch_size": 8}, 0.1)], phases={"data": 0.5, "forward": 0.5})
    (case,) = run.cases
    mean = case.estimates["step_time_mean"]
    estimates = {**case.estimates, "step_time_mean": msgspec.structs.replace(mean, value=mean.value / faster)}
    first, *_ = read_phases(msgspec.structs.replace(case, estimates=estimates), run)
    assert ("rough_shares" in [one.id for one in first.seen]) is told


def test_a_batch_that_ran_out_is_not_advised():
    points = [
        ({"batch_size": b, "precision": p}, 0.01 + 1e-4 * b) for p in ("bf16", "fp32") for b in (8, 64, 512, 1024)
    ]
    run = summary(points, status={3: Status.OUT_OF_MEMORY, 7: Status.TIMED_OUT})
    assert [ran_out(run.cases[place], run.cases) for place in (0, 4)] == [1024, None], "of the same precision"
    curve = curve_of(run.cases[0], run.cases[:3], run.machine)
    assert curve is not None
    assert [one.values for one in advise(curve, {})[-1].remedies] == [{"batch_size": 1024}]
    told = advise(curve, {}, 1024)[-1]
    ran = Statement("ran_out", {"batch_size": 1024})
    assert told.seen[-1] == ran
    assert [one.values for one in told.remedies] == [{"batch_size": 768}]
    (memory,) = read_memory(run.cases[2], run)
    assert memory.seen[1:] == (ran,)

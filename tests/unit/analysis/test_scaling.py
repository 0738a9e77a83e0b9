"""Weak and strong scaling of cases that differ in their ranks, with intervals."""

import pytest
from build import a_sweep
from reported import stored_summary

from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.scaling import scaling, scaling_rows


def summary(folder, *points):
    """A run of (world_size, strategy, batch of a rank, items/s)."""
    cases = [
        ({"world_size": size, "strategy": strategy, "batch_size": batch, "precision": "fp32"}, size * batch / rate)
        for size, strategy, batch, rate in points
    ]
    return stored_summary(folder, a_sweep(cases))


def found(run):
    return {
        (p.ranks, p.case.configuration["strategy"], p.case.configuration["batch_size"]): p for p in scaling(run.cases)
    }


@pytest.fixture
def run(tmp_path):
    # a_sweep makes a trial of the items of its batch alone: a rank's. Rates here are of one rank.
    return summary(
        tmp_path, (1, "none", 8, 800.0), (1, "none", 16, 1000.0), (2, "ddp", 8, 1500.0), (2, "fsdp2", 8, 1200.0)
    )


def test_weak_is_by_the_same_batch_of_a_rank_and_strong_by_the_same_in_all(run):
    points = found(run)
    ddp = points[2, "ddp", 8]
    assert ddp.weak_baseline is points[1, "none", 8].case
    assert ddp.strong_baseline is points[1, "none", 16].case
    rates = {key: point.case.estimates["throughput"].value for key, point in points.items()}
    assert ddp.weak is not None
    assert ddp.weak.value == pytest.approx(rates[2, "ddp", 8] / rates[1, "none", 8] / 2)
    assert ddp.weak.low is not None
    assert ddp.weak.high is not None
    assert ddp.weak.low < ddp.weak.value < ddp.weak.high
    assert ddp.strong is not None
    assert ddp.strong.value == pytest.approx(rates[2, "ddp", 8] / rates[1, "none", 16] / 2)


def test_the_baseline_is_of_the_same_strategy_or_of_none(tmp_path):
    points = found(summary(tmp_path, (2, "ddp", 8, 800.0), (4, "ddp", 8, 900.0), (4, "fsdp2", 8, 700.0)))
    assert points[4, "ddp", 8].weak_baseline is points[2, "ddp", 8].case
    assert points[4, "fsdp2", 8].weak is None


def test_one_process_first_then_by_strategy_and_ranks(run):
    order = [(p.ranks, p.case.configuration["strategy"]) for p in scaling_rows(scaling(run.cases))]
    assert order == [(1, "none"), (1, "none"), (2, "ddp"), (2, "fsdp2")]


def test_a_run_without_ranks_has_none(tmp_path):
    assert (
        scaling(stored_summary(tmp_path, a_sweep([({"batch_size": 8}, 0.01), ({"batch_size": 16}, 0.02)])).cases) == []
    )


def test_a_back_end_that_one_process_has_not_is_no_axis_of_the_table(tmp_path):
    def axes(*backends):
        cases = [({"batch_size": 8, "world_size": size, "strategy": word, "backend": backend}, 0.01)
                 for size, word, backend in ((1, "none", "auto"), *((2, "ddp", one) for one in backends))]  # fmt: skip
        return varying_axes(stored_summary(tmp_path / str(len(backends)), a_sweep(cases)).cases)

    assert axes("nccl") == ["batch_size", "world_size", "strategy"]
    assert axes("nccl", "gloo") == ["batch_size", "world_size", "strategy", "backend"]

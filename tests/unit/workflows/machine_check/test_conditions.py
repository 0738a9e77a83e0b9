"""Each condition is fit on a quiet machine, noisy or unfit beyond its limits, with advice; unknown blocks nobody."""

import pytest

from torchstone.report.diagnosis_messages import text
from torchstone.workflows.machine_check import conditions
from torchstone.workflows.machine_check.conditions import Fitness, MachineCondition, machine_verdict

GIB = 2.0**30


@pytest.mark.parametrize(
    ("fit", "noisy", "unfit"),
    [
        [conditions.clock(t) for t in (1e-7, 1e-5, 1e-2)],
        [conditions.lost_time(s, 1e-3) for s in (0.001, 0.02, 0.3)],
        [conditions.within(s) for s in (0.01, 0.1, 0.5)],
        [conditions.between(s, 4) for s in (0.01, 0.1, 0.5)],
        [conditions.stolen_time(s) for s in (0.0, 0.02, 0.2)],
        [conditions.cores_kept_busy(c, 2, "python (pid 1) 1.0") for c in (0.05, 0.3, 1.2)],
        [conditions.device_neighbours(c) for c in (0.0, 1.0, 3.0)],
        [conditions.swap_traffic(b) for b in (0.0, 4096.0, float(1 << 30))],
        [conditions.memory_room(b, 100 * GIB) for b in (50 * GIB, 10 * GIB, 1 * GIB)],
        [conditions.disk_room(b, "outputs") for b in (20 << 30, 500 << 20, 1 << 20)],
        [conditions.temperature("temperature", c) for c in (50.0, 85.0, 99.0)],
        [conditions.aa_test(d, "unclear") for d in (0.01, 0.05, 0.4)],
    ],
)
def test_each_is_graded_and_advised_on(fit, noisy, unfit):
    assert [fit.fitness, noisy.fitness, unfit.fitness] == [Fitness.FIT, Fitness.NOISY, Fitness.UNFIT]
    assert fit.advice is None
    assert noisy.advice
    assert unfit.advice
    assert fit.name == noisy.name == unfit.name


def test_a_big_machine_bears_more_neighbours_than_a_small_one():
    assert conditions.cores_kept_busy(2.0, 2, "").fitness == Fitness.UNFIT
    assert conditions.cores_kept_busy(2.0, 64, "").fitness == Fitness.NOISY


@pytest.mark.parametrize(
    "condition",
    [
        conditions.stolen_time(None), conditions.cores_kept_busy(None, 2, ""), conditions.device_neighbours(None),
        conditions.throttling(None, None), conditions.governor(None), conditions.turbo(None),
        conditions.swap_traffic(None), conditions.memory_room(None, None), conditions.temperature("temperature", None),
    ],
)  # fmt: skip
def test_what_the_system_does_not_tell_is_unknown_and_blocks_nobody(condition):
    assert condition.fitness == Fitness.UNKNOWN
    assert condition.value is None
    assert machine_verdict([condition]) == Fitness.FIT


def test_words():
    assert conditions.governor("performance").fitness == Fitness.FIT
    assert conditions.governor("powersave").fitness == Fitness.NOISY
    assert conditions.turbo("on").fitness == conditions.turbo("off").fitness == Fitness.FIT
    assert conditions.turbo("on").advice
    assert conditions.throttling(0.0, 0).fitness == Fitness.FIT
    assert conditions.throttling(0.2, None).fitness == conditions.throttling(None, 3).fitness == Fitness.NOISY
    assert conditions.exclusive_use(None).fitness == Fitness.FIT
    assert conditions.exclusive_use("cpu is busy: run x").fitness == Fitness.UNFIT


def test_an_a_a_test_that_alarms_or_does_not_end_is_no_good_sign():
    assert conditions.aa_test(0.01, "worse").fitness == Fitness.NOISY
    assert conditions.aa_test(None, "not_comparable").fitness == Fitness.UNFIT


def test_the_worst_decides():
    def one(fitness):
        return MachineCondition("c", (), fitness)

    assert machine_verdict([one(Fitness.FIT), one(Fitness.UNFIT), one(Fitness.NOISY)]) == Fitness.UNFIT
    assert machine_verdict([one(Fitness.FIT), one(Fitness.UNKNOWN), one(Fitness.NOISY)]) == Fitness.NOISY
    assert machine_verdict([]) == Fitness.FIT


def test_more_time_for_an_ab_is_asked_for_by_the_flag_that_gives_it():
    advice = conditions.aa_test(0.05, "unclear").advice
    assert advice is not None
    assert "ab --within" in text(advice)

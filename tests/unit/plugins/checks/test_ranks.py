"""Checks of several ranks: one is late, and more of them than cores."""

import msgspec
from build import a_case, a_run, a_trial

from torchstone.core.schema.case import Placement
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.plugins.checks.undisturbed import shared_cores, slow_rank

CASE = a_case({"world_size": 2, "strategy": "ddp", "backend": "gloo"}, placement=Placement("cpu", count=2))


def a_run_of(second_s, cores=8, case=CASE):
    each = [Measurement("unsynchronized_step_time_s", Stage.STEADY, values, "communication", rank=rank)
            for rank, values in enumerate(((0.010,) * 6, second_s))]  # fmt: skip
    trials = [
        a_trial(more=each, case_id=case.case_id, trial_id=f"t{n}", facts={"logical_cores": cores}) for n in range(3)
    ]
    return a_run(trials, cases=[case])


def test_a_rank_that_is_always_late_is_named():
    (found,) = slow_rank.look(a_run_of((0.015,) * 6))
    assert found.message.startswith(
        "rank 1 is the slowest in 100 % of the steps, by 50 % beyond the median of the others"
    )


def test_ranks_that_are_late_by_turns_or_a_little_are_not():
    assert not list(slow_rank.look(a_run_of((0.015, 0.009) * 3)))
    assert not list(slow_rank.look(a_run_of((0.0105,) * 6)))


def test_more_ranks_than_cores():
    (found,) = shared_cores.look(a_run_of((0.010,) * 6, cores=1))
    assert found.message == "2 ranks share 1 logical cores: several compute in turn on one"
    assert not list(shared_cores.look(a_run_of((0.010,) * 6, cores=2)))
    on_cards = msgspec.structs.replace(CASE, placement=Placement("cuda", count=2))
    assert not list(shared_cores.look(a_run_of((0.010,) * 6, cores=1, case=on_cards)))

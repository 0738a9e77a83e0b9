"""How many trials a run takes, and when it has enough: decided without a clock of its own."""

import math
import random

import msgspec
import pytest
from build import a_case, a_run, a_trial

from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Run, Slot
from torchstone.core.schema.trial import Disturbance, Outcome, Status
from torchstone.execution.controller.rounds import FAILED, FEWEST, LEAST_ROUNDS, NARROW, OVER, Rounds, time_of

CASES = tuple(a_case({"batch_size": size}) for size in (1, 2, 4))


def a_beginning(procedure, trials=()):
    head = msgspec.structs.replace(a_run().head, plan=Plan(CASES, tuple(Slot(c, 0) for c in range(3))))
    return Rounds(procedure, Run(head, tuple(trials), (), None))


def taken(place, number, step_s=0.01, duration_s=2.0, status=Status.OK):
    fields = {"case_id": CASES[place].case_id, "number": number, "order": 0, "duration_s": duration_s}
    return a_trial([step_s] * 20, outcome=Outcome(status), trial_id=f"{place}-{number}", **fields)


def carried_out(rounds, step_of, until_s=1e9, duration_s=2.0):
    """Take the first round and all further ones; return the trials a case, why it ended, and when."""
    elapsed_s, counts = 0.0, [0, 0, 0]

    def take(place, number):
        nonlocal elapsed_s
        elapsed_s += duration_s
        counts[place] += 1
        rounds.note(taken(place, number, step_of(place), duration_s))

    for place in range(3):
        take(place, 0)
    while elapsed_s < until_s:
        found = rounds.next(elapsed_s)
        for place in found.cases:
            take(place, rounds.number)
        if found.why is not None:
            return counts, found.why, elapsed_s
    raise AssertionError("it goes on for ever")


def test_a_quiet_machine_needs_the_fewest_trials():
    dice = random.Random(0)
    counts, why, _ = carried_out(
        a_beginning(Procedure(within_s=1000.0)), lambda _: 0.01 * math.exp(dice.gauss(0.0, 0.01))
    )
    assert (counts, why) == ([FEWEST] * 3, NARROW)


def test_a_case_that_is_known_well_leaves_the_time_to_the_others():
    dice = random.Random(0)
    counts, why, _ = carried_out(
        a_beginning(Procedure(within_s=1000.0)), lambda place: 0.01 * math.exp(dice.gauss(0.0, 0.01 + 0.07 * place))
    )
    assert why == NARROW
    assert counts[0] == FEWEST < counts[1] < counts[2]


def test_it_keeps_to_the_time_it_was_given():
    dice = random.Random(0)
    counts, why, elapsed_s = carried_out(
        a_beginning(Procedure(within_s=31.0)), lambda _: 0.01 * math.exp(dice.gauss(0.0, 0.3))
    )
    assert why == OVER
    assert 25.0 <= elapsed_s <= 31.0
    assert max(counts) - min(counts) <= 1


def test_without_a_time_every_case_has_three_trials_whatever_they_take():
    dice = random.Random(0)
    counts, why, _ = carried_out(a_beginning(Procedure()), lambda _: 0.01 * 3.0 ** dice.gauss(0.0, 1.0), 1e9, 200.0)
    assert (counts, why) == ([LEAST_ROUNDS] * 3, OVER)


def test_a_case_that_never_ends_well_is_given_up_and_the_others_are_not():
    rounds = a_beginning(Procedure(within_s=1000.0))
    for number in range(2):
        for place in range(3):
            rounds.note(taken(place, number, status=Status.OK if place else Status.CRASHED))
    assert set(rounds.next(10.0).cases) == {1, 2}
    alone = a_beginning(Procedure(), [taken(p, n, status=Status.CRASHED) for p in range(3) for n in range(2)])
    assert alone.next(1.0).why == FAILED


def test_what_a_resumed_run_has_already_counts():
    dice = random.Random(0)
    done = [taken(p, n, 0.01 * math.exp(dice.gauss(0.0, 0.005))) for n in range(FEWEST) for p in range(3)]
    assert a_beginning(Procedure(within_s=1000.0), done).next(5.0).why == NARROW
    assert a_beginning(Procedure(within_s=1000.0), done[:-3]).next(5.0).cases


def test_rounds_are_in_an_order_of_their_own_that_the_seed_decides():
    orders: dict[int, list[list[tuple[int, ...]]]] = {}
    for seed in (0, 0, 1):
        rounds = a_beginning(Procedure(within_s=1000.0, seed=seed))
        orders.setdefault(seed, []).append([rounds.next(1.0).cases for _ in range(8)])
    assert orders[0][0] == orders[0][1] != orders[1][0]
    assert len(set(orders[0][0])) > 1


def test_the_first_trials_measure_everything_and_the_others_what_moves():
    rounds = a_beginning(Procedure())
    assert rounds.procedure_for(0, 0).phases
    assert rounds.procedure_for(0, 0).count_flops
    for number in range(3):
        rounds.note(taken(0, number))
    later = rounds.procedure_for(0, 3)
    assert not later.phases
    assert not later.count_flops
    assert later.budget_s <= Procedure().budget_s
    assert rounds.procedure_for(1, 3).phases, "of a case that has none yet"
    assert not a_beginning(Procedure(phases=False)).procedure_for(0, 0).phases


@pytest.mark.parametrize(
    ("given", "cases", "time_s"), [(None, 1, 55.0), (None, 5, 155.0), (None, 336, 900.0), (20.0, 9, 20.0)]
)
def test_the_time_of_a_run(given, cases, time_s):
    assert time_of(Procedure(within_s=given), cases) == time_s


def test_slow_steps_get_few_of_them_once_it_is_known_that_they_are_slow():
    rounds = a_beginning(Procedure())
    assert rounds.procedure_for(0, 0).warmup is None
    rounds.note(taken(0, 0, step_s=1.5))
    slow, asked = rounds.procedure_for(0, 1), a_beginning(Procedure(warmup=20), [taken(0, 0, step_s=1.5)])
    assert (slow.warmup, slow.min_steps) == (1, 2)
    assert asked.procedure_for(0, 1).warmup == 20, "who asked for more gets it"
    assert rounds.procedure_for(1, 1).warmup is None, "of another case nothing is known"


DISTURBED = Disturbance(disturbed=True, share=1.0)


def one_case(paces_s, disturbed, procedure):
    """Return the rounds of the first case alone, these trials taken."""
    head = msgspec.structs.replace(a_run().head, plan=Plan(CASES[:1], (Slot(0, 0),)))
    trials = [
        msgspec.structs.replace(taken(0, number, pace_s), trial_id=f"t{number}", disturbance=DISTURBED if bad else None)
        for number, (pace_s, bad) in enumerate(zip(paces_s, disturbed, strict=True))
    ]
    return Rounds(procedure, Run(head, tuple(trials), (), None))


def test_disturbed_trials_do_not_count_towards_the_fewest():
    paces_s = [0.01 * (1.0 + 0.001 * number) for number in range(FEWEST + 1)]
    bad = [True, True] + [False] * (FEWEST - 1)
    assert one_case(paces_s, bad, Procedure()).next(20.0).cases == (0,)
    assert one_case(paces_s, [False] * (FEWEST + 1), Procedure()).next(20.0).why == NARROW


def test_disturbed_trials_do_not_widen_the_interval():
    paces_s = [0.01 * (1.0 + 0.001 * number) for number in range(FEWEST)] + [0.05, 0.06]
    assert one_case(paces_s, [False] * FEWEST + [True, True], Procedure()).next(20.0).why == NARROW
    assert one_case(paces_s, [False] * (FEWEST + 2), Procedure()).next(20.0).cases == (0,)


def test_a_figure_of_a_busy_machine_is_never_known_well_enough():
    paces_s = [0.01 * (1.0 + 0.001 * number) for number in range(2 * FEWEST)]
    busy = [True] * (FEWEST + 1) + [False] * (FEWEST - 1)
    assert one_case(paces_s, busy, Procedure()).next(20.0).cases == (0,)


def test_disturbed_trials_get_half_as_much_time_again_unless_the_time_was_given():
    usual_s = time_of(Procedure(), 1)
    paces_s, bad = [0.01, 0.02, 0.04, 0.08], [False, False, False, True]
    assert one_case(paces_s, bad, Procedure()).next(1.3 * usual_s).cases == (0,)
    assert one_case(paces_s, bad, Procedure()).next(1.5 * usual_s).why == OVER
    assert one_case(paces_s, [False] * 4, Procedure()).next(1.3 * usual_s).why == OVER
    given = Procedure(within_s=usual_s)
    assert one_case(paces_s, bad, given).next(1.3 * usual_s).why == OVER


def test_a_machine_that_stays_busy_is_told_after_half_of_the_usual_time():
    usual_s, paces_s = time_of(Procedure(), 1), [0.01 * 2.0**number for number in range(5)]
    busy, left = [True] * 5, [True] * 4 + [False]
    assert one_case(paces_s, busy, Procedure()).next(0.6 * usual_s).why == OVER
    assert one_case(paces_s, busy, Procedure()).next(0.4 * usual_s).cases == (0,)
    assert one_case(paces_s, left, Procedure()).next(1.3 * usual_s).cases == (0,), "the others are leaving"
    assert one_case(paces_s, busy, Procedure(within_s=usual_s)).next(0.9 * usual_s).cases == (0,), "the time was given"


def test_several_cases_on_a_machine_that_stays_busy_are_not_held_to_three_rounds():
    for few, bad in ((True, [True] * 3), (False, [False, True, True])):
        rounds = a_beginning(
            Procedure(),
            [
                msgspec.structs.replace(taken(place, 0), disturbance=DISTURBED if disturbed else None)
                for place, disturbed in enumerate(bad)
            ],
        )
        assert (rounds.next(0.6 * time_of(Procedure(), 3)).why == OVER) is few
    assert one_case([0.01], [True], Procedure()).next(1e3).cases == (0,), "one trial may have had bad luck"


def test_a_round_whose_time_is_over_is_ended_but_for_the_first_three():
    asked = a_beginning(Procedure(within_s=30.0), [taken(p, n) for p in range(3) for n in range(2)])
    asked.next(12.0)
    assert not asked.is_over(29.0)
    assert asked.is_over(31.0)
    own = a_beginning(Procedure(), [taken(p, n) for p in range(3) for n in range(2)])
    own.next(12.0)
    assert not own.is_over(10.0 * time_of(Procedure(), 3))
    for place in range(3):
        own.note(taken(place, 2))
    own.next(18.0)
    assert own.is_over(10.0 * time_of(Procedure(), 3))

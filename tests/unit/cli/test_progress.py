"""The live bar: the time that is left, by a clock that does what the test says; the answer so far, and what is open."""

import itertools
import random

import msgspec
import pytest
from build import a_case, a_run, a_trial
from fakes import FakeClock
from stored import case

from torchstone.cli._progress import ProgressBar, Remaining
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Slot

OPENING_S = 3.0


def sweep(sizes, rounds, seconds, clock, **procedure):
    """Take every trial of a sweep; yield (share done, seconds expected, seconds really left) as each starts."""
    cases = tuple(a_case({"batch_size": size}) for size in sizes)
    dice = random.Random(1)
    slots = []
    for number in range(rounds):
        order = list(range(len(cases)))
        dice.shuffle(order)
        slots += [Slot(case, number) for case in order]
    head = a_run(cases=cases, procedure=Procedure(**procedure)).head
    head = msgspec.structs.replace(head, plan=Plan(cases, tuple(slots)))
    forks = procedure.get("isolation") != "spawn"
    opens = [forks and a.number != b.number for a, b in itertools.pairwise(slots)]
    took = [seconds(cases[slot.case], dice) for slot in slots]
    whole = [t + 0.05 + OPENING_S * o for t, o in zip(took, [False, *opens], strict=True)]
    remaining = Remaining(head, OPENING_S * 1.3, clock)  # the first one also looked at the machine
    for n, slot in enumerate(slots):
        remaining.starts()
        yield n / len(slots), remaining.left_s(), sum(whole[n:])
        clock.sleep(whole[n])
        remaining.finished(a_trial(case_id=cases[slot.case].case_id, duration_s=took[n]))


def by_size(case, dice):
    return (0.3 + 0.02 * case.configuration["batch_size"]) * dice.uniform(0.9, 1.1)


def by_budget(case, dice):
    return 10.0 * dice.uniform(0.9, 1.1)


def in_a_blink(case, dice):
    return 0.1


@pytest.mark.parametrize("seconds", [by_size, by_budget, in_a_blink])
@pytest.mark.parametrize(("sizes", "rounds"), [((1, 8, 64, 512, 2048), 3), (range(1, 337), 1), (range(1, 13), 3)])
def test_from_a_third_on_it_is_believable(seconds, sizes, rounds):
    told = [one for one in sweep(sizes, rounds, seconds, FakeClock()) if one[0] >= 1 / 3]
    wrong = [(share, told_s, real_s) for share, told_s, real_s in told if abs(told_s - real_s) > 0.25 * real_s + 0.5]
    assert wrong == []


def test_no_template_is_expected_where_every_trial_is_a_new_interpreter():
    *_, (_, told_s, real_s) = sweep((1, 2), 3, in_a_blink, FakeClock(), isolation="spawn")
    assert told_s == pytest.approx(real_s, abs=0.05)


def test_it_shrinks_while_a_trial_runs_and_is_never_negative():
    clock = FakeClock()
    told = sweep((1, 2), 2, by_budget, clock)
    assert next(told)[1] is None
    next(told)
    head = a_run(cases=(a_case(),)).head
    remaining = Remaining(head, 0.0, clock)
    remaining.starts()
    clock.sleep(10.0)
    remaining.finished(a_trial(duration_s=10.0))
    remaining.starts()
    assert remaining.left_s() == pytest.approx(20.0)
    clock.sleep(4.0)
    assert remaining.left_s() == pytest.approx(16.0)
    clock.sleep(60.0)
    assert remaining.left_s() == pytest.approx(10.0), "one that takes too long says nothing of the next"


def last_line(capsys, sizes, trials):
    """What is said after the last trial. `sizes`: batch sizes, with by how much the steps of their trials differ."""
    cases = {size: case(batch_size=size) for size in sizes}
    run = a_run([], cases=tuple(cases.values()))
    bar = ProgressBar(verbose=True)
    bar.begins(msgspec.structs.replace(run.head, procedure=Procedure(trials=None)))
    for number in range(trials):
        for size, noise in sizes.items():
            step_s = 0.01 * (1.0 + noise * (number % 2))
            bar.finished(a_trial([step_s] * 10, items=size, case_id=cases[size].case_id, number=number))
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("trials", "lines"), [(None, 4), (31, 31)], ids=["open", "asked for"])
def test_a_log_has_a_line_every_ten_seconds_or_one_of_each_trial_that_was_asked_for(capsys, trials, lines):
    clock, one = FakeClock(), a_case()
    bar = ProgressBar(clock=clock)
    bar.begins(msgspec.structs.replace(a_run([], cases=(one,)).head, procedure=Procedure(trials=trials)))
    for number in range(31):
        bar.finished(a_trial([0.1] * 10, case_id=one.case_id, number=number))
        clock.sleep(1.0)
    assert sum(" finished (" in line for line in capsys.readouterr().err.splitlines()) == lines


def test_where_the_fastest_is_known_the_line_names_the_case_that_needs_more(capsys):
    assert "; more trials for batch 32, ±" in last_line(capsys, {64: 0.0, 32: 0.2}, 9)


@pytest.mark.parametrize(("trials", "said"), [(3, True), (8, False)])
def test_where_all_are_known_the_line_tells_how_many_trials_are_the_fewest(capsys, trials, said):
    assert (f"; {trials} of at least 8 trials a case" in last_line(capsys, {64: 0.0}, trials)) is said


def test_a_figure_of_one_trial_says_that_it_has_no_interval(capsys):
    assert "items/s (one trial: no interval)" in last_line(capsys, {64: 0.0}, 1).replace("images", "items")
    assert last_line(capsys, {64: 3.0}, 2).endswith("images/s (no interval yet)"), "wider than ±50 %: no dash"


def test_nothing_is_said_while_the_figure_itself_is_open(capsys):
    _, there, told = last_line(capsys, {32: 0.0, 64: 0.2}, 9).partition("so far")
    assert there
    assert ";" not in told

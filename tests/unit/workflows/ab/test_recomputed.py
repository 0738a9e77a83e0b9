"""The answer of a stored A/B comparison follows from the turns in its record, or it is named."""

import math
import random

import msgspec
import pytest
from build import a_case, a_run, a_trial
from build import compared as with_answer

from torchstone.core.schema.comparison import Comparison, Judgement, Rules, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import present_facts
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.stats.nested import trimmed
from torchstone.workflows.ab.experiment import METHOD
from torchstone.workflows.ab.recomputed import faults
from torchstone.workflows.ab.sequential_test import SequentialTest

PAIRS, TEMPLATES, RATIO = 12, 3, 1.05
A, B = a_case(), a_case({"batch_size": 32})


def the_trials(case_b=A, share: float = 1.0) -> list[Trial]:
    """Two processes a pair, nine turns each; B takes 5 % longer an item. `share`: items a step of B ÷ those of A."""
    dice = random.Random(3)
    found: list[Trial] = []
    for pair in range(PAIRS):
        location = math.log(RATIO) + dice.gauss(0.0, 0.002)
        a_s = [0.1 * math.exp(dice.gauss(0.0, 0.01)) for _ in range(9)]
        b_s = [one * share * math.exp(location + dice.gauss(0.0, 0.003)) for one in a_s]
        for side, case, turns in (("A", A, a_s), ("B", case_b, b_s)):
            facts = {"side": side, "pair": pair, "template": 1 + pair * TEMPLATES // PAIRS}
            found.append(
                a_trial(
                    turns, steady={"turn_time_s": turns}, facts=facts, case_id=case.case_id,
                    trial_id=f"{side}{pair}", number=pair, order=len(found),
                )
            )  # fmt: skip
    return found


def compared(trials: list[Trial], case_b=A, share: float = 1.0, **changes) -> Run:
    """A run with the comparison that `ab` would have recorded at its last look, most alarms having been spent there."""
    rules = Rules(margin=0.02, false_alarms=0.01)
    test, last = SequentialTest(rules.margin, rules.false_alarms), object()
    for a, b in zip(trials[::2], trials[1::2], strict=True):
        if a.facts.template != last:
            last = a.facts.template
            test.new_template()
        logs = sorted(
            math.log(y / x / share) for x, y in zip(a.values("turn_time_s"), b.values("turn_time_s"), strict=True)
        )
        found = trimmed(logs, 0.25)
        assert found is not None
        test.add(found.value, found.error)
    test.look(0.5)
    test.add(0.0, 0.0)  # what was looked at before has to be seen again: a pair that was cut short
    look = test.look(1.0)
    assert look is not None
    assert look.pairs == PAIRS
    ratio = Estimate(look.value, look.low, look.high, 0.99, "ratio", METHOD, look.pairs, 1000)
    sides = (Side("A", "20261121-100000-abcd", A.case_id), Side("B", "20261121-100000-abcd", case_b.case_id))
    verdict = judge(look.low, look.high, 0.02, higher_is_better=False)
    made = Comparison(*sides, "step_time_mean", ratio, verdict, 0.02)
    cases = [A] if case_b is A else [A, case_b]
    run = a_run(trials, cases=cases)
    run = msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, ab=rules))
    return with_answer(run, msgspec.structs.replace(made, **changes))


def test_what_was_recorded_follows():
    run = compared(the_trials())
    assert run.comparison is not None
    assert run.comparison.ratio is not None
    assert run.comparison.verdict == Judgement.WORSE
    assert run.comparison.ratio.value == pytest.approx(RATIO, rel=0.005)
    assert list(faults(run)) == []


def test_sides_of_other_batch_sizes_are_compared_by_the_item():
    run = compared(the_trials(B, 2.0), B, 2.0)
    assert run.comparison is not None
    assert run.comparison.ratio is not None
    assert run.comparison.ratio.value == pytest.approx(RATIO, rel=0.005)
    assert list(faults(run)) == []


def test_a_run_of_another_kind_has_nothing_to_say():
    assert list(faults(a_run())) == []


def forged(**ratio) -> Run:
    run = compared(the_trials())
    assert run.comparison is not None
    assert run.comparison.ratio is not None
    made = msgspec.structs.replace(run.comparison, ratio=msgspec.structs.replace(run.comparison.ratio, **ratio))
    return with_answer(run, made)


def without_rules(run: Run) -> Run:
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, ab=None))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (forged(value=1.02), "ratio 1.02, the turns in the record give 1.0"),
        (forged(low=1.0499, high=1.0501), "is narrower than the record allows"),
        (forged(trials=99), "99 pairs, the record has 12"),
        (forged(level=0.999), "level 0.999, the rules of the run say 0.99"),
        (compared(the_trials(), verdict=Judgement.BETTER), "verdict better, its interval and margin give worse"),
        (compared(the_trials(), verdict=Judgement.SAME), "verdict same, its interval and margin give worse"),
        (compared(the_trials(), margin=0.2), "its margin is 0.2, the rules of the run say 0.02"),
        (compared(the_trials(), ratio=None), "verdict worse without a ratio"),
        (compared(the_trials(), ratio=None, verdict=Judgement.NOT_COMPARABLE), "but no process of it failed"),
        (
            compared(the_trials(), ratio=None, verdict=Judgement.UNCLEAR),
            "without a ratio, the turns in the record give 1.0",
        ),
        (with_answer(compared(the_trials()), None), "missing, though the run ended"),
        (without_rules(compared(the_trials())), "the run has no rules for one"),
        (
            compared(the_trials(), candidate=Side("B", "x", "elsewhere")),
            "nothing can be computed from its turns ('elsewhere')",
        ),
    ],
)
def test_what_does_not_follow_is_named(run, said):
    assert any(said in fault for fault in faults(run)), list(faults(run))


def test_removed_and_failed_pairs_are_missed():
    run = compared(the_trials())
    fewer = msgspec.structs.replace(run, trials=run.trials[2:])
    assert any("12 pairs, the record has 11" in fault for fault in faults(fewer))
    bad = msgspec.structs.replace(run.trials[0].outcome, status=Status.CRASHED)
    crashed = msgspec.structs.replace(run.trials[0], outcome=bad)
    assert any("12 pairs" in fault for fault in faults(msgspec.structs.replace(run, trials=(crashed, *run.trials[1:]))))
    assert any("too few pairs" in fault for fault in faults(msgspec.structs.replace(run, trials=run.trials[:4])))


def test_what_no_process_can_have_sent_is_named_and_not_raised():
    run = compared(the_trials())
    turns = [0.0] * 9
    strange = a_trial(
        turns, steady={"turn_time_s": turns}, facts=dict(present_facts(run.trials[0].facts)), trial_id="A0"
    )
    changed = msgspec.structs.replace(run, trials=(strange, *run.trials[1:]))
    assert any("nothing can be computed" in fault for fault in faults(changed))

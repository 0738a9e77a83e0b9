"""few_trials, few_samples, failed_trials, not_settled: was enough measured, and of what?"""

from __future__ import annotations

from build import a_run, a_trial

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Disturbance, Disturber, Status
from torchstone.plugins import registry


def look(check: str, run: Run) -> list[Finding]:
    return list(registry.load("checks", check).look(run))


def test_few_trials_warns_of_one_and_mentions_two() -> None:
    one = look("few_trials", a_run([a_trial()], procedure=Procedure(trials=1)))
    assert [f.severity for f in one] == [Severity.WARNING]
    assert "--trials 3" in one[0].advice
    two = look("few_trials", a_run([a_trial(), a_trial(), a_trial(status=Status.CRASHED)]))
    assert [f.severity for f in two] == [Severity.INFO]
    assert "see how the others ended" in two[0].advice
    assert not look("few_trials", a_run())
    assert not look("few_trials", a_run([a_trial(status=Status.CRASHED)]))


def test_few_samples_names_the_shortest_window() -> None:
    found = look("few_samples", a_run([a_trial(), a_trial([0.1] * 4)]))
    assert [f.message for f in found] == ["only 4 steady steps in the throughput window"]
    assert "--budget 20s" in found[0].advice
    counted = look("few_samples", a_run([a_trial([0.1])], procedure=Procedure(iterations=1)))
    assert "--iterations" in counted[0].advice
    assert not look("few_samples", a_run([a_trial([0.1] * 5)]))


def test_two_steps_each_of_three_trials_are_enough_where_the_interval_is_over_trials() -> None:
    rounds, counted = Procedure(), Procedure(trials=3)
    assert not look("few_samples", a_run([a_trial([1.0, 1.1])] * 3, procedure=rounds))
    assert look("few_samples", a_run([a_trial([1.0, 1.1])] * 3, procedure=counted))
    (found,) = look("few_samples", a_run([a_trial([1.0, 1.1])] * 2, procedure=rounds))
    assert found.advice == "measure again with --within 10m"


def test_failed_trials_names_how_they_ended() -> None:
    others = [a_trial(status=Status.OUT_OF_MEMORY), a_trial(status=Status.TIMED_OUT)]
    found = look("failed_trials", a_run([a_trial(), *others]))
    assert len(found) == 1
    assert "1 out_of_memory, 1 timed_out" in found[0].message
    assert "--timeout 1200s" in found[0].advice
    assert not look("failed_trials", a_run([a_trial(status=Status.CRASHED)] * 2))
    assert not look("failed_trials", a_run([a_trial(), a_trial(status=Status.INTERRUPTED)]))


def test_failed_requests_counts_what_another_tool_left_out() -> None:
    facts = {"other": {"failed_requests": 3}, "claimed": {"total_items": 40.0}}
    (found,) = look("failed_requests", a_run([a_trial([], facts=facts), a_trial([], facts=facts)]))
    assert found.values == {"failed": 6, "answered": 80}
    assert found.severity == Severity.WARNING
    many = {"other": {"failed_requests": 3}, "claimed": {"total_items": 400.0}}
    assert [f.severity for f in look("failed_requests", a_run([a_trial([], facts=many)]))] == [Severity.INFO]
    assert not look("failed_requests", a_run([a_trial(facts={"other": {"failed_requests": 0}}), a_trial()]))


def test_not_settled_asks_for_twice_the_warm_up() -> None:
    facts = {"warmup_settled": False, "warmup_steps": 12}
    restless = a_trial([0.2 * 0.9**n for n in range(9)], facts=facts)
    found = look("not_settled", a_run([a_trial(), restless, restless]))
    assert "in 2 of 3 trials" in found[0].message
    assert found[0].advice.endswith("--warmup 24")
    assert not look("not_settled", a_run())
    assert not look("not_settled", a_run([a_trial([0.1] * 9, facts=facts)])), "steady steps acquit a restless warm-up"
    assert not look("not_settled", a_run([a_trial(facts={"warmup_settled": None})]))
    busy = Disturbance(disturbed=False, share=0.2, causes=(Disturber.PROCESSES,), left_out_s=((9.0, 9.1),))
    beside = a_trial([0.2 * 0.9**n for n in range(9)], facts=facts, disturbance=busy)
    assert not look("not_settled", a_run([a_trial(), beside, beside])), "nothing settles beside others"

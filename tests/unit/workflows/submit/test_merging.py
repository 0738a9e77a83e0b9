"""Merging by content: nothing lost, nothing doubled, whatever the order in which jobs ended."""

import itertools

import msgspec
import pytest
from build import a_machine, a_part, a_submission
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.schema.codec import encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Host
from torchstone.core.schema.trial import Status
from torchstone.workflows.submit.planning import is_complete, plans
from torchstone.workflows.submit.submitting import merge_shares

PLAN = a_submission(cases=3, trials=2)
KEYS = {(case.case_id, number) for case in PLAN.head.plan.cases for number in (0, 1)}


def keys(run, *statuses):
    return sorted((t.case_id, t.number) for t in run.trials if t.outcome.status in (statuses or tuple(Status)))


def test_the_merged_run_equals_its_plan():
    run = merge_shares(PLAN, [a_part(PLAN, share, 0, 1) for share in range(3)], None, {}).run
    assert set(keys(run)) == KEYS
    assert len(run.trials) == len(KEYS)
    assert run.head.plan == PLAN.head.plan
    assert run.end
    assert run.end.status == "done"
    assert [t.order for t in run.trials] == list(range(6))


@given(st.permutations(range(3)), st.integers(0, 3))
def test_the_order_in_which_parts_come_makes_no_difference(order, at_first):
    parts = [a_part(PLAN, share, 0, 1, started=f"19:0{share}:00") for share in range(3)]
    whole = merge_shares(PLAN, parts, None, {}).run
    assert encode(merge_shares(PLAN, [parts[n] for n in order], None, {}).run) == encode(whole)
    # Merged in two steps it holds the same trials, and what was there stays where it was.
    first = merge_shares(PLAN, [parts[n] for n in order[:at_first]], None, {}).run
    then = merge_shares(PLAN, parts, first, {}).run
    assert keys(then) == keys(whole)
    assert [t.trial_id for t in then.trials][: len(first.trials)] == [t.trial_id for t in first.trials]


def test_merged_again_it_does_not_change():
    parts = [a_part(PLAN, share, 0) for share in range(3)]
    once = merge_shares(PLAN, parts, None, {1: "job 17_1 ended: TIMEOUT"}).run
    assert merge_shares(PLAN, parts, once, {1: "job 17_1 ended: TIMEOUT"}).run is once
    assert encode(merge_shares(PLAN, parts, None, {1: "job 17_1 ended: TIMEOUT"}).run) == encode(once)


def test_a_trial_that_two_jobs_took_counts_once():
    early, late = a_part(PLAN, 0, 0, 1, started="19:01:00"), a_part(PLAN, 0, 1, started="19:02:00")
    found = merge_shares(PLAN, [late, early], None, {})
    assert found.twice == 1
    assert len(found.run.trials) == 2
    assert {t.facts.job for t in found.run.trials} == {early.head.run_id}


def test_what_a_job_left_undone_is_told_with_how_it_ended():
    parts = [a_part(PLAN, 0, 0, 1), a_part(PLAN, 1, 0)]
    run = merge_shares(PLAN, parts, None, {1: "job 17_1 ended: TIMEOUT"}).run
    assert run.end
    assert run.end.status == "interrupted"
    (gone,) = [t for t in run.trials if t.outcome.status == Status.INTERRUPTED]
    assert gone.number == 1
    assert gone.outcome.message == "job 17_1 ended: TIMEOUT"
    assert (gone.case_id, 0) in keys(run, Status.OK)
    # The job of share 2 still runs: nothing is said of it. When the rest has come, nothing of the kind is left.
    more = [*parts, a_part(PLAN, 1, 1, started="19:05:00"), a_part(PLAN, 2, 0, 1)]
    assert keys(merge_shares(PLAN, more, run, {}).run, Status.OK) == sorted(KEYS)


def test_a_trial_that_an_attempt_was_interrupted_in_is_missing():
    part = a_part(PLAN, 0, 0, status=Status.INTERRUPTED)
    assert merge_shares(PLAN, [part], None, {}).run.trials == ()
    assert not is_complete(PLAN, plans(PLAN)[0], [part])
    assert is_complete(PLAN, plans(PLAN)[0], [part, a_part(PLAN, 0, 0, 1)])


def test_a_run_with_an_open_number_of_trials_is_complete_when_a_job_says_so():
    how = msgspec.structs.replace(PLAN.head.procedure, trials=None)
    plan = msgspec.structs.replace(PLAN, head=msgspec.structs.replace(PLAN.head, procedure=how))
    part = a_part(plan, 0, 0, 1)
    assert is_complete(plan, plans(plan)[0], [part])
    assert not is_complete(plan, plans(plan)[0], [msgspec.structs.replace(part, end=None)])


def test_each_trial_knows_its_machine():
    cards = (DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA A100"),)
    machines = [a_machine(), a_machine(devices=cards), a_machine()]
    parts = [a_part(PLAN, share, 0, 1, started=f"19:0{share}:00", machine=machines[share]) for share in range(3)]
    run = merge_shares(PLAN, parts, None, {}).run
    assert len(run.head.machines) == 2
    of_share = dict(zip((t.case_id for t in run.trials), (t.facts.machine for t in run.trials), strict=True))
    assert list(of_share.values()) == [0, 1, 0]
    (finding,) = [f for f in run.findings if f.check == "several_machines"]
    assert "2 kinds of machines: a processor; a processor + NVIDIA A100" in finding.message


def test_machines_of_one_kind_are_told_and_no_warning():
    other = a_machine(host=Host("other", "Linux-6.1", "a processor", 4, 8, 16 * 2**30))
    parts = [a_part(PLAN, 0, 0), a_part(PLAN, 1, 0, machine=other)]
    (finding,) = [f for f in merge_shares(PLAN, parts, None, {}).run.findings if f.check == "several_machines"]
    assert finding.severity == "info"
    assert "host, other" in finding.message


@pytest.mark.parametrize(("cases", "per_job"), list(itertools.product((1, 5, 12), (1, 2, 5))))
def test_the_shares_are_the_plan(cases, per_job):
    whole = a_submission(cases=cases, trials=3, cases_per_job=per_job)
    found = plans(whole)
    assert [case for plan in found for case in plan.cases] == list(whole.head.plan.cases)
    assert sum(len(plan.slots) for plan in found) == len(whole.head.plan.slots)


def test_ranks_on_nodes_of_several_kinds_are_told():
    share = a_part(PLAN, 0, 0, 1)
    unlike = ("n1: 8 cores of a processor", "n2: 4 cores of another")
    trials = tuple(msgspec.structs.replace(t, facts=Facts(unlike_nodes=unlike)) for t in share.trials)
    run = merge_shares(PLAN, [msgspec.structs.replace(share, trials=trials)], None, {}).run
    (finding,) = [f for f in run.findings if f.check == "several_machines"]
    assert finding.message == f"the ranks of a trial were on nodes of several kinds: {'; '.join(unlike)}"

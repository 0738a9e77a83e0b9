"""A tune that had to leave the user's own batches as they are."""

import msgspec
from build import a_case, a_run, a_trial

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import TuneSpec
from torchstone.plugins import registry

CHECK = registry.load("checks", "own_batches")
CASE = a_case({"batch_size": 8}, model="py:mine.py:load")
FIXED = {"own_fixed": ("batch_size", "num_workers"), "own_why": Statement("as_they_come", {"kind": "list"})}


def run_of(facts, *, tuned=True):
    run = a_run([a_trial(case_id=CASE.case_id, facts=facts)], cases=[CASE])
    spec = TuneSpec("throughput", "adaptive", CASE, {}) if tuned else None
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, tune=spec))


def test_it_says_what_was_not_tuned_and_what_to_return_instead():
    (finding,) = CHECK.look(run_of(FIXED))
    values = {"model": "py:mine.py:load", "axes": ("batch_size", "num_workers"), "kind": "list"}
    assert (finding.reason, finding.values) == ("as_they_come", values)
    assert finding.advice.startswith("return the Dataset")


def test_it_is_silent_where_all_could_vary_and_where_nothing_was_tuned():
    assert not list(CHECK.look(run_of({})))
    assert not list(CHECK.look(run_of(FIXED, tuned=False)))

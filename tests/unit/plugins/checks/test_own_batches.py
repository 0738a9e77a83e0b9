"""A tune that had to leave the user's own batches as they are."""

import msgspec
from build import a_case, a_run, a_trial

from torchstone.core.schema.answer import TuneSpec
from torchstone.plugins import registry

CHECK = registry.load("checks", "own_batches")
CASE = a_case({"batch_size": 8}, model="py:mine.py:load")
FIXED = {"own_fixed": ("batch_size", "num_workers"), "own_why": "a list is used as it comes"}


def run_of(facts, *, tuned=True):
    run = a_run([a_trial(case_id=CASE.case_id, facts=facts)], cases=[CASE])
    spec = TuneSpec("throughput", "adaptive", CASE, {}) if tuned else None
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, tune=spec))


def test_it_says_what_was_not_tuned_and_what_to_return_instead():
    (finding,) = CHECK.look(run_of(FIXED))
    told = "batch_size, num_workers (a list is used as it comes)"
    assert finding.message == f"not tuned of py:mine.py:load: {told}"
    assert finding.advice.startswith("return the Dataset")


def test_it_is_silent_where_all_could_vary_and_where_nothing_was_tuned():
    assert not list(CHECK.look(run_of({})))
    assert not list(CHECK.look(run_of(FIXED, tuned=False)))

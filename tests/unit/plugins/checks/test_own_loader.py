"""A loader that came with the model, and the axes that were measured instead of its own settings."""

from build import a_case, a_run, a_trial

from torchstone.core.schema.procedure import Procedure
from torchstone.plugins import registry

CHECK = registry.load("checks", "own_loader")
OWN = {"own_batch_size": 32, "own_num_workers": 2}


def run_of(*settings, facts=OWN, **changes):
    axes = [{"batch_size": size, "num_workers": workers} for size, workers in settings]
    cases = [a_case(one, model="py:mine.py:load") for one in axes]
    trials = [a_trial(case_id=case.case_id, trial_id=case.case_id, facts=facts) for case in cases]
    return a_run(trials, cases=cases, **changes)


def test_it_says_what_to_type():
    (finding,) = CHECK.look(run_of((1, 0), (8, 0)))
    assert finding.subject == "run"
    has = "the DataLoader of py:mine.py:load has batch_size=32, num_workers=2"
    assert finding.message == f"{has}: not measured"
    assert finding.advice == "to measure its settings: --axis batch_size=32 --axis num_workers=2"


def test_it_is_silent_where_they_were_measured_or_there_is_none():
    assert not list(CHECK.look(run_of((1, 0), (32, 2))))
    assert not list(CHECK.look(run_of((1, 0), facts={})))
    assert not list(CHECK.look(run_of((1, 0), procedure=Procedure(isolation="inline"))))

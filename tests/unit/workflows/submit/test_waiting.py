"""Waiting for jobs: until all shares are complete or over, across a controller that is restarted."""

import pytest

from torchstone.core.errors import MissingError
from torchstone.core.schema.submission import Phase, ShareState
from torchstone.workflows.submit import submitting
from torchstone.workflows.submit.submitting import Standing


def standing(phase, have=0, *, complete=False):
    return Standing(0, ShareState(phase, phase.upper(), "17_0"), (have, 2), complete)


def waited(monkeypatch, tmp_path, looks):
    """What was said, and how long was slept, where a cluster answers so."""
    answers = iter(looks)
    said: list[object] = []
    slept: list[float] = []

    def look(folder):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return (answer,)

    monkeypatch.setattr(submitting, "standings", look)
    submitting.wait(tmp_path, said.append, slept.append)
    return said, slept


def test_it_says_what_has_changed_and_looks_less_often_where_nothing_does(monkeypatch, tmp_path):
    idle, at_work, over = standing(Phase.WAITING), standing(Phase.RUNNING, 1), standing(Phase.OVER, 2, complete=True)
    said, slept = waited(monkeypatch, tmp_path, [idle, idle, idle, at_work, over])
    assert said == [(idle,), (at_work,), (over,)]
    assert slept[0] < slept[1] < slept[2] > slept[3]


def test_nobody_waits_for_a_job_whose_share_is_complete(monkeypatch, tmp_path):
    said, slept = waited(monkeypatch, tmp_path, [standing(Phase.WAITING, 2, complete=True)])
    assert len(said) == 1
    assert slept == []


def test_a_controller_that_is_restarted_is_asked_again(monkeypatch, tmp_path):
    silence = MissingError("SLURM does not answer")
    said, _ = waited(monkeypatch, tmp_path, [silence, silence, standing(Phase.OVER, 1)])
    assert len(said) == 1
    with pytest.raises(MissingError):
        waited(monkeypatch, tmp_path, [silence] * 21)

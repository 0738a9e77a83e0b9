"""Waiting for jobs: until all shares are complete or over, across a controller that is restarted."""

import msgspec
import pytest
from build import a_part, a_submission

from torchstone.core.errors import MissingError
from torchstone.core.schema.run import End
from torchstone.core.schema.submission import Phase, ShareState
from torchstone.workflows.submit import submitting
from torchstone.workflows.submit.planning import lasted_s
from torchstone.workflows.submit.submitting import ShareProgress, node_hours


def standing(phase, have=0, *, complete=False):
    return ShareProgress(0, ShareState(phase, phase.upper(), "17_0"), (have, 2), complete)


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


def test_a_record_lasts_to_its_end_and_one_that_was_cut_off_to_its_last_trial():
    part = a_part(a_submission(), 0, 0, 1)
    began, last = part.head.started_utc, part.trials[-1]
    assert began == "2026-11-23T19:01:00+00:00"
    trials = (msgspec.structs.replace(last, started_utc="2026-11-23T19:02:00+00:00", duration_s=3.5),)
    cut_off = msgspec.structs.replace(part, trials=trials, end=None)
    assert lasted_s(cut_off) == 63.5
    assert lasted_s(msgspec.structs.replace(cut_off, end=End("2026-11-23T19:05:00+00:00", "done"))) == 240.0
    assert lasted_s(msgspec.structs.replace(cut_off, end=End("2026-11-23T19:02:03+00:00", "done"))) == 63.5
    assert lasted_s(msgspec.structs.replace(cut_off, trials=())) == 0.0


def test_node_hours_are_those_that_are_known_and_at_least_so_many_where_records_say_so():
    over = ShareState(Phase.OVER, "COMPLETED", "17_0")
    accounted = ShareProgress(0, over, (2, 2), True, None, 3600.0, True)
    recorded = ShareProgress(1, over, (2, 2), True, None, 1800.0)
    lost = ShareProgress(2, over, (0, 2), False)
    assert node_hours([accounted, standing(Phase.WAITING)]) == (1.0, False)
    assert node_hours([accounted, recorded]) == (1.5, True)
    assert node_hours([accounted, lost]) == (1.0, True)
    assert node_hours([lost])[0] is None
    assert node_hours([standing(Phase.WAITING)]) == (None, False)

"""What is said of a run whose time was over before its intervals were narrow."""

import re
from pathlib import Path

from build import a_case, a_run, a_trial

from torchstone.analysis.summary import summarize
from torchstone.core.schema.procedure import Procedure
from torchstone.report.documents.run import longer_time_command
from torchstone.storage.query import entry_of


def said(paces, procedure=None, duration_s=2.0):
    trials = [a_trial([0.01 * pace] * 20, number=n, order=n, duration_s=duration_s) for n, pace in enumerate(paces)]
    run = a_run(trials, cases=[a_case()], procedure=procedure or Procedure())
    return longer_time_command(summarize(entry_of(run, Path())))


def test_a_run_that_knows_says_nothing():
    assert said([1.0, 1.001, 0.999, 1.0, 1.002, 0.998, 1.0, 1.001]) is None


def test_one_that_does_not_says_how_long_would_be_enough():
    # 8 trials of 2 s, ±17 %: (17 ÷ 5)² times as many, and a third on top
    text = said([1.0, 1.3, 0.8, 1.2, 0.9, 1.1, 0.75, 1.0])
    assert text is not None
    assert text.startswith("a throughput is not known to ±5 %: --within ")
    (minutes,) = map(int, re.findall(r"--within (\d+)m", text))
    assert 3 <= minutes <= 6


def test_an_hour_is_no_advice():
    text = said([1.0, 3.0, 0.3, 2.0, 0.5, 1.0], duration_s=30.0)
    assert text is not None
    assert "more than an hour" in text


def test_who_asked_for_a_number_of_trials_gets_it():
    assert said([1.0, 3.0, 0.3], Procedure(trials=3)) is None

"""The line a trial of a run whose number of trials is open: the answer so far, and which figure more trials are for."""

import msgspec
import pytest
from build import a_run, a_trial
from stored import case

from torchstone.cli._progress import ProgressBar
from torchstone.core.schema.procedure import Procedure


def last_line(capsys, sizes, trials):
    """What is said after the last trial. `sizes`: batch sizes, with by how much the steps of their trials differ."""
    cases = {size: case(batch_size=size) for size in sizes}
    run = a_run([], cases=tuple(cases.values()))
    bar = ProgressBar()
    bar.begins(msgspec.structs.replace(run.head, procedure=Procedure(trials=None)))
    for number in range(trials):
        for size, noise in sizes.items():
            step_s = 0.01 * (1.0 + noise * (number % 2))
            bar.finished(a_trial([step_s] * 10, items=size, case_id=cases[size].case_id, number=number))
    return capsys.readouterr().err.splitlines()[-1]


def test_where_the_fastest_is_known_the_line_names_the_case_that_needs_more(capsys):
    assert "; more trials for batch 32, ±" in last_line(capsys, {64: 0.0, 32: 0.2}, 9)


@pytest.mark.parametrize(("trials", "said"), [(3, True), (8, False)])
def test_where_all_are_known_the_line_tells_how_many_trials_are_the_fewest(capsys, trials, said):
    assert (f"; {trials} of at least 8 trials a case" in last_line(capsys, {64: 0.0}, trials)) is said


def test_nothing_is_said_while_the_figure_itself_is_open(capsys):
    _, there, told = last_line(capsys, {32: 0.0, 64: 0.2}, 9).partition("so far")
    assert there
    assert ";" not in told

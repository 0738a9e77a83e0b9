"""How a command that measures ends."""

import argparse

from build import a_run
from stored import store

from torchstone.cli._measuring import ProgressLines, run_and_report
from torchstone.storage.place import team_at


class Interrupted(ProgressLines):
    """The progress of a run that Ctrl-C ends."""

    def __init__(self, run_id):
        super().__init__()
        self.run_id = run_id


def interrupt():
    raise KeyboardInterrupt


def test_after_ctrl_c_it_is_said_that_nothing_was_pushed(outputs, capsys):
    run = a_run()
    store(outputs, [run])
    progress, team = Interrupted(run.head.run_id), team_at("postgresql://db.example/bench", typed=False)
    assert run_and_report(argparse.Namespace(), outputs, progress, interrupt, team=team) == 130
    resumed, pushed = capsys.readouterr().err.splitlines()
    assert resumed == f"torchstone: interrupted: `torchstone resume {run.head.run_id}` measures the missing trials"
    what = f"`torchstone push {run.head.run_id}` sends what there is"
    assert pushed == f"torchstone: not pushed, as trials are missing: {what}"


def test_after_ctrl_c_before_a_run_began_nothing_is_to_be_pushed(outputs, capsys):
    team = team_at("postgresql://db.example/bench", typed=False)
    assert run_and_report(argparse.Namespace(), outputs, Interrupted(None), interrupt, team=team) == 130
    assert capsys.readouterr().err == "torchstone: interrupted\n"

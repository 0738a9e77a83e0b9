"""A controller that is killed loses nothing it reported, and leaves no process behind."""

import sys

import pytest
from faults.killing import KilledRun, moments

KILLS = 6
CASES = 4

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc, and forks"),
    pytest.mark.alone,  # while a template imports it cannot see that it is alone: long, beside busy neighbours
]


def test_a_kill_at_any_moment_loses_no_reported_trial_and_leaves_no_process(tmp_path):
    def run(name: str) -> KilledRun:
        (tmp_path / name).mkdir()
        return KilledRun(tmp_path / name, CASES)

    whole = run("whole")
    whole_s = whole.whole()
    left = [run(str(i)).killed(moment) for i, moment in enumerate(moments(KILLS, whole.trials, whole_s))]
    assert [(one.moment, one.faults) for one in left if one.faults] == []
    assert any(one.reported for one in left), "no kill fell among the trials: nothing was tested"

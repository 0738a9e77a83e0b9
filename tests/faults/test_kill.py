"""A controller that is killed loses nothing it reported, and leaves no process behind."""

import sys
from concurrent.futures import ThreadPoolExecutor

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
    when = moments(KILLS, whole.trials, whole_s)
    runs = [run(str(number)) for number in range(KILLS)]
    with ThreadPoolExecutor(2) as two:  # a run is one process at work most of the time
        left = list(two.map(KilledRun.killed, runs, when))
    assert [(one.moment, one.faults) for one in left if one.faults] == []
    assert any(one.reported for one in left), "no kill fell among the trials: nothing was tested"

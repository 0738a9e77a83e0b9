"""Whoever is killed in a sweep, `resume` ends with the full set: no trial twice, none that had finished lost."""

import sys

import pytest
from faults.resuming import KilledSweep, victims

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc, and forks")


def test_kills_and_resumes_end_with_exactly_the_full_set(tmp_path):
    survived = KilledSweep(tmp_path, sizes=4).survive(victims(8, seed=3))
    assert survived.faults == []
    hit = [kill.victim for kill in survived.kills if kill.hit is not None]
    assert {"controller", "trial"} <= set(hit)
    assert survived.starts >= 1 + hit.count("controller")
    # A worker that was killed is data; a controller that was killed leaves its trial to be taken again.
    assert 1 <= survived.ends.get("crashed", 0) <= len(hit) - hit.count("controller")
    assert set(survived.ends) <= {"ok", "crashed"}

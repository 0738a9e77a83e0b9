"""The interface that gloo is told: the one on the route to the first node."""

import sys

import pytest

from torchstone.core.errors import Unsupported
from torchstone.execution.worker.ranks.launching import by_place, interface_towards, share_of, threads_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the loopback has another name there")


def test_this_machine_is_reached_by_the_loopback():
    assert interface_towards("127.0.0.1") == "lo"


def test_a_name_that_leads_nowhere_is_told():
    with pytest.raises(Unsupported, match=r"the first node, no-such-node\.invalid, cannot be reached from this one"):
        interface_towards("no-such-node.invalid")


@pytest.mark.parametrize(("cores", "ranks"), [(8, 1), (8, 2), (8, 3), (2, 2), (7, 4)])
def test_every_core_belongs_to_one_rank(cores, ranks):
    shares = [share_of(range(cores), rank, ranks) for rank in range(ranks)]
    assert sorted(core for share in shares for core in share) == list(range(cores))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_more_ranks_than_cores_take_turns_on_one_each():
    assert [share_of((4, 6), rank, 5) for rank in range(5)] == [(4,), (6,), (4,), (6,), (4,)]


@pytest.fixture
def topology(tmp_path):
    """Two packages of two cores of two hyperthreads, numbered as Linux does: siblings are 4 apart."""
    for cpu in range(8):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(str(cpu % 4 // 2))
        (folder / "core_id").write_text(str(cpu % 2))
    return tmp_path


def test_hyperthreads_of_a_core_are_beside_one_another(topology):
    assert by_place(range(8), topology) == [0, 4, 1, 5, 2, 6, 3, 7]


def test_a_thread_for_each_physical_core_unless_the_user_has_said_it(topology):
    assert threads_for((0, 4, 1, 5), {}, topology) == 2
    assert threads_for((0, 4, 1, 5), {"OMP_NUM_THREADS": "3"}, topology) is None
    assert threads_for((0, 1, 2), {}, topology / "absent") == 3

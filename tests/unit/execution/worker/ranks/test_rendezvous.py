"""Where ranks meet: here, unless the environment names nodes."""

import pytest

from torchstone.core.errors import UsageError
from torchstone.execution.worker.ranks.rendezvous import Rendezvous, rendezvous


def test_one_node_is_here_at_a_free_port():
    assert rendezvous({}) == Rendezvous(1, 0, "127.0.0.1:0")
    assert rendezvous({}).is_here


def test_a_scheduler_names_the_nodes():
    said = {"TORCHSTONE_NODES": "2", "TORCHSTONE_NODE_RANK": "1", "TORCHSTONE_RENDEZVOUS": "n1:29500"}
    assert rendezvous(said) == Rendezvous(2, 1, "n1:29500")
    assert not rendezvous(said).is_here


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"TORCHSTONE_NODES": "2"}, "needs TORCHSTONE_RENDEZVOUS=HOST:PORT"),
        ({"TORCHSTONE_NODES": "two"}, "TORCHSTONE_NODES=two"),
        ({"TORCHSTONE_NODES": "2", "TORCHSTONE_NODE_RANK": "2", "TORCHSTONE_RENDEZVOUS": "n:1"}, "from 0"),
    ],
)
def test_half_of_it_is_refused(said, says):
    with pytest.raises(UsageError, match=says):
        rendezvous(said)

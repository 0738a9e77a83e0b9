"""The interface that gloo is told: the one on the route to the first node."""

import sys

import pytest

from torchstone.core.errors import Unsupported
from torchstone.execution.worker.ranks.interfaces import interface_towards

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the loopback has another name there")


def test_this_machine_is_reached_by_the_loopback():
    assert interface_towards("127.0.0.1") == "lo"


def test_a_name_that_leads_nowhere_is_told():
    with pytest.raises(Unsupported, match=r"the first node, no-such-node\.invalid, cannot be reached from this one"):
        interface_towards("no-such-node.invalid")

"""Where ranks meet: on this machine by themselves, or at an address that a scheduler has given to every node."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from torchstone.core.errors import UsageError

NODES, NODE_RANK, ENDPOINT = "TORCHSTONE_NODES", "TORCHSTONE_NODE_RANK", "TORCHSTONE_RENDEZVOUS"
_FREE_PORT_HERE = "127.0.0.1:0"


class Rendezvous(msgspec.Struct, frozen=True):
    """How many nodes take part, which one this is, and host:port of the store that all of them reach."""

    nodes: int = 1
    node_rank: int = 0
    endpoint: str = _FREE_PORT_HERE

    @property
    def is_here(self) -> bool:
        """Whether all ranks are on this machine."""
        return self.nodes == 1


def rendezvous(environment: Mapping[str, str] = os.environ) -> Rendezvous:
    """Return what the environment says of the nodes: one, where it says nothing. Raises UsageError if it is torn."""
    nodes, node_rank = (environment.get(name, default) for name, default in ((NODES, "1"), (NODE_RANK, "0")))
    if not nodes.isdecimal() or not node_rank.isdecimal() or int(nodes) < 1 or int(node_rank) >= int(nodes):
        raise UsageError(f"{NODES}={nodes}, {NODE_RANK}={node_rank}: the number of nodes, and this one's from 0")
    endpoint = environment.get(ENDPOINT, "")
    if int(nodes) > 1 and not endpoint:
        raise UsageError(f"{NODES}={nodes} needs {ENDPOINT}=HOST:PORT, the same on every node")
    return Rendezvous(int(nodes), int(node_rank), endpoint or _FREE_PORT_HERE)

"""Starts trials whose ranks are on several nodes of an allocation: here as ever, and on the others by their agents."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Meeting, NodeRequest, Request, TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.controller.nodes.peer import Peer
from torchstone.execution.controller.nodes.trial_on_nodes import SpreadTrial
from torchstone.execution.controller.nodes.words import Open
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Cluster, Launcher, LiveTrial, Node

_ALIKE = ("python", "torch")  # in all nodes: another torch is another program


def nodes_of(count: int) -> Sequence[Node]:
    """Return so many nodes of the allocation that this process is in, its own first. Raises UsageError for fewer."""
    for name in registry.names("clusters"):
        cluster: Cluster = registry.load("clusters", name)
        if nodes := cluster.allocation():
            if len(nodes) < count:
                raise UsageError(f"nodes={count}: the allocation has {len(nodes)}: {', '.join(n.name for n in nodes)}")
            return nodes[:count]
    raise UsageError(f"nodes={count} needs an allocation of a cluster: torchstone submit … --on slurm asks for one")


class SpreadLauncher(Launcher):
    """A Launcher around that of this node. `nodes`: this one first."""

    describes = "trials whose ranks are on several nodes"

    def __init__(self, here: Launcher, nodes: Sequence[Node], procedure: Procedure) -> None:
        self._here, self._nodes, self._procedure = here, nodes, procedure
        self._peers: list[Peer] = []
        self._facts = Facts()

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Begin to get ready on all nodes at once."""
        self._end_agents()
        self._here.open(preload, heap, folder, pin_threads=pin_threads)
        opening = Open(self._procedure, tuple(preload))
        self._peers = [Peer(node, opening) for node in self._nodes[1:]]

    def ready(self) -> None:
        """Wait until all nodes are ready. Raises MissingError where one is not."""
        self._here.ready()
        for peer in self._peers:
            peer.ready()

    def compare(self, machine: Machine) -> None:
        """Compare the Machines of further nodes with this one. Raises MissingError for other versions than here."""
        unlike = []
        for peer in self._peers:
            there = peer.ready()
            for name in _ALIKE:
                own, other = machine.software.get(name), there.software.get(name)
                if own != other:
                    raise MissingError(f"node {peer.node.name} has {name} {other}, this one {own}: install one of them")
            if (kind := _kind(there)) != _kind(machine):
                unlike.append(f"{peer.node.name}: {kind}")
        here = f"{self._nodes[0].name}: {_kind(machine)}"
        self._facts = Facts(unlike_nodes=(here, *unlike) if unlike else ())

    def start(self, request: Request) -> LiveTrial:
        """Carry a request out on the first nodes, as many as its Case has. Raises MissingError where one is lost."""
        if not isinstance(request, TrialRequest) or request.case.placement.nodes == 1:
            return self._here.start(request)
        self.ready()
        peers = self._peers[: request.case.placement.nodes - 1]
        if lost := [peer.node.name for peer in peers if peer.gone]:
            raise MissingError(f"node {', '.join(lost)} is lost; `torchstone resume` goes on in another allocation")
        nodes = self._nodes[: request.case.placement.nodes]
        meeting = Meeting(nodes[0].address, _free_port(), 0, tuple(node.name for node in nodes))
        for number, peer in enumerate(peers, 1):
            peer.start(NodeRequest(request, msgspec.structs.replace(meeting, node=number)))
        return SpreadTrial(self._here.start(NodeRequest(request, meeting)), peers, self._facts)

    def close(self) -> None:
        """End what `open` began, on all nodes."""
        self._here.close()
        self._end_agents()

    def _end_agents(self) -> None:
        for peer in self._peers:
            peer.close()
        self._peers = []


def _kind(machine: Machine) -> str:
    """Return the devices of a machine in words."""
    cards = Counter(device.name for device in machine.devices if device.kind != "cpu")
    told = [f"{count} × {name}" for name, count in cards.items()]
    return ", ".join([f"{machine.host.logical_cores} cores of {machine.host.processor or 'unknown make'}", *told])


def _free_port() -> int:
    """Return a port that nobody listens on now: torchrun's static rendezvous wants to know it beforehand."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])

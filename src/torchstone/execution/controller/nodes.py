"""Trials whose ranks are on several nodes of an allocation: one worker per further node, started by the cluster."""

from __future__ import annotations

import copy
import os
import select
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.message import (
    Ended,
    Event,
    Inspected,
    InspectRequest,
    Meeting,
    NodeRequest,
    Request,
    Stack,
    TrialRequest,
)
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.controller.observer import wait_for_answer
from torchstone.execution.worker.outcome import RANK
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Cluster, Launcher, LiveTrial, Node

_INSPECTS_S = 180.0  # a node's disk may be cold, and its file system far
_SAME = ("python", "torch")  # in all nodes: another torch is another program


def inspected(live: LiveTrial, where: str) -> Inspected:
    """Return the answer to an InspectRequest. Raises MissingError where there is none; `where`: whose."""
    found, ended = wait_for_answer(live, Inspected, _INSPECTS_S)
    if found is None:
        raise MissingError(f"{where} could not be inspected: {ended.outcome.message}")
    return found


class SpreadTrial:
    """`here`: the process of the trial on this node. `others`: those on further nodes, by name."""

    def __init__(self, here: LiveTrial, others: Mapping[str, LiveTrial], facts: Facts) -> None:
        self.pid = here.pid
        self.facts = merged(here.facts, facts)
        self.lost: list[str] = []  # names of nodes
        self._here, self._all = here, (here, *others.values())
        self._open: dict[int, LiveTrial] = {one.fileno(): one for one in self._all}
        self._names = {one.fileno(): name for name, one in others.items()}
        self._ends: dict[int, Ended] = {}
        self._ranks: dict[int, str] = {}  # by descriptor: whose stack comes from there
        self._is_over = False
        self._ready = select.epoll()
        self._over = os.eventfd(0)  # readable from then on, so that who waits for events learns that there are none
        for descriptor in (*self._open, self._over):
            self._ready.register(descriptor, select.EPOLLIN)

    def fileno(self) -> int:
        """Return a descriptor that is readable when any node has sent something."""
        return self._ready.fileno()

    def events(self) -> Sequence[Event] | None:
        """Return the events that have arrived; None at the end."""
        if self._is_over:
            return None
        arrived: list[Event] = []
        here_died = False
        for descriptor, _ in self._ready.poll(0):
            if (live := self._open.get(descriptor)) is None:
                continue
            name, events = self._names.get(descriptor), live.events()
            if events is None:
                self._close(descriptor)
                if descriptor not in self._ends and name is not None:
                    # Not the model's doing: interrupted, so that `resume` measures it again.
                    self.lost.append(name)
                    self._ends[descriptor] = Ended(Outcome(Status.INTERRUPTED, f"node {name}: lost"))
                here_died = here_died or descriptor not in self._ends
            for event in events or ():
                if isinstance(event, Ended):
                    self._ends[descriptor] = event if name is None else _at(name, event)
                elif isinstance(event, Stack):
                    arrived.append(self._labelled(descriptor, event.lines))
                elif name is None:
                    arrived.append(event)
        if (end := self._end()) is not None:
            arrived.append(end)
        if end is not None or here_died or not self._open:
            self._is_over = True
            os.eventfd_write(self._over, 1)
        return arrived

    def _labelled(self, source: int, lines: Sequence[str]) -> Stack:
        """Return a Stack that begins with its rank: what the nodes send piece by piece arrives in any order."""
        rank = self._ranks.get(source)
        if ranks := [line for line in lines if RANK.fullmatch(line.strip())]:
            self._ranks[source] = ranks[-1]
        return Stack(tuple(lines) if rank is None else (rank, *lines))

    def _end(self) -> Ended | None:
        """Return the end of the whole: of the first node that failed for a reason of its own, else once all have.

        The ranks of the others fail too, since their peer has gone; what only says that waits for the reason.
        """
        failed = [end for end in self._ends.values() if end.outcome.status != Status.OK]
        lost = [end for end in failed if end.outcome.status == Status.INTERRUPTED]
        own = lost or [end for end in failed if end.outcome.reason != Reason.PEER_GONE]
        if own or self._open:
            return own[0] if own else None
        return next(iter([*failed, *self._ends.values()]), None)

    def _close(self, descriptor: int) -> None:
        self._ready.unregister(descriptor)
        del self._open[descriptor]

    def ask_where(self) -> None:
        """Ask the processes of all nodes for their Stacks."""
        for live in self._all:
            live.ask_where()

    def kill(self) -> None:
        """End the processes of all nodes."""
        for live in self._all:
            live.kill()

    def ending(self) -> str | None:
        """Wait until the processes of all nodes have ended; return what was wrong with that of this one, or None."""
        self.kill()
        self._ready.close()
        os.close(self._over)
        wrong, *_ = [live.ending() for live in self._all]
        return wrong


def _at(node: str, end: Ended) -> Ended:
    """Return how the ranks of another node ended, with its name where something went wrong there."""
    if end.outcome.status in (Status.OK, Status.UNSUPPORTED) or end.mistake is not None:
        return end
    outcome = msgspec.structs.replace(end.outcome, message=f"node {node}: {end.outcome.message}")
    return msgspec.structs.replace(end, outcome=outcome)


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

    def __init__(self, here: Launcher, nodes: Sequence[Node]) -> None:
        self._here, self._nodes = here, nodes
        self._there = copy.copy(registry.load("launchers", "spawn"))
        self._facts = Facts()
        self._last: SpreadTrial | None = None

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Open the launcher of this node; the others begin with each trial."""
        self._there.open(preload, heap, folder, pin_threads=pin_threads)
        self._here.open(preload, heap, folder, pin_threads=pin_threads)

    def ready(self) -> None:
        """Wait until this node is ready."""
        self._here.ready()

    def compare(self, machine: Machine) -> None:
        """Compare further nodes with this Machine. Raises MissingError for one that lacks its torch or Python."""
        names = [self._nodes[0].name]
        kinds = [_kind(machine.devices)]
        for node, live in [(node, self._there.start_on(node, InspectRequest())) for node in self._nodes[1:]]:
            there = inspected(live, f"node {node.name}")
            for name in _SAME:
                own, other = machine.software.get(name), there.software.get(name)
                if own != other:
                    raise MissingError(f"node {node.name} has {name} {other}, this one {own}: install one of them")
            names.append(node.name)
            kinds.append(_kind(there.devices))
        unlike = [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True) if kind != kinds[0]]
        self._facts = Facts(unlike_nodes=(f"{names[0]}: {kinds[0]}", *unlike) if unlike else ())

    def start(self, request: Request) -> LiveTrial:
        """Carry a request out on the first nodes, as many as its Case has. Raises MissingError where one is lost."""
        if not isinstance(request, TrialRequest) or request.case.placement.nodes == 1:
            return self._here.start(request)
        if self._last is not None and self._last.lost:
            lost = ", ".join(self._last.lost)
            raise MissingError(f"node {lost} is lost; `torchstone resume` goes on in another allocation")
        nodes = self._nodes[: request.case.placement.nodes]
        with socket.socket() as probe:  # torchrun's static rendezvous wants to know a free port beforehand
            probe.bind(("", 0))
            meeting = Meeting(nodes[0].address, int(probe.getsockname()[1]), 0, tuple(node.name for node in nodes))
        others = {
            node.name: self._there.start_on(node, NodeRequest(request, msgspec.structs.replace(meeting, node=number)))
            for number, node in enumerate(nodes[1:], 1)
        }
        self._last = SpreadTrial(self._here.start(NodeRequest(request, meeting)), others, self._facts)
        return self._last

    def close(self) -> None:
        """Close the launcher of this node."""
        self._here.close()


def _kind(devices: Sequence[DeviceInfo]) -> str:
    """Return the devices of a machine: 1 × Intel Xeon, 4 × NVIDIA H100."""
    return ", ".join(f"{count} × {name}" for name, count in Counter(device.name for device in devices).items())

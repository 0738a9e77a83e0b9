"""Starts trials whose ranks are on several nodes of an allocation: here as ever, and on the others by their agents."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.codec import Malformed, decode
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Ended, Event, Meeting, NodeRequest, Request, Stack, TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.controller.outcome import RANK
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Cluster, Launcher, LiveTrial, Node


class AgentOpen(msgspec.Struct, frozen=True, tag="open", tag_field="word"):
    """Get ready to start trials of these models, and answer with Ready."""

    procedure: Procedure
    preload: tuple[str, ...]


class Start(msgspec.Struct, frozen=True, tag="start", tag_field="word"):
    """Start this trial's ranks of your node, and answer with Over when they have ended."""

    request: NodeRequest


class Kill(msgspec.Struct, frozen=True, tag="kill", tag_field="word"):
    """End the trial."""


class AskWhere(msgspec.Struct, frozen=True, tag="where", tag_field="word"):
    """Ask the trial for its Stack, and answer with Where if it gives one."""


Word = AgentOpen | Start | Kill | AskWhere


class AgentReady(msgspec.Struct, frozen=True, tag="ready", tag_field="answer"):
    """The agent can start trials on this Machine."""

    machine: Machine


class AgentRefused(msgspec.Struct, frozen=True, tag="refused", tag_field="answer"):
    """The agent cannot start trials, and why."""

    why: str


class Where(msgspec.Struct, frozen=True, tag="where", tag_field="answer"):
    """The stacks of a trial's ranks, innermost frame first."""

    lines: tuple[str, ...]


class Over(msgspec.Struct, frozen=True, tag="over", tag_field="answer"):
    """The trial `number` of this agent has ended. `ended`: what it said last; `wrong`: its signal or exit code."""

    number: int
    ended: Ended | None
    wrong: str | None


Answer = AgentReady | AgentRefused | Where | Over


_CHUNK_BYTES = 1 << 16
_OPENS_S = 180.0  # a node's disk may be cold, and its file system far
_ENDS_S = 5.0
_AGENT = "torchstone.execution.controller.node_agent"


class Peer:
    """An agent on a node, started at once. `gone`: it has ended, or is lost. `trials`: how many it was asked for.

    Raises MissingError where the node's command is not installed.
    """

    def __init__(self, node: Node, opening: Word) -> None:
        self.node, self.gone, self.trials = node, False, 0
        self._machine: Machine | None = None
        self._rest = b""
        try:
            self._process = subprocess.Popen(  # in a session of its own: Ctrl-C is the controller's to answer
                [*node.command, sys.executable, "-m", _AGENT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as fault:
            raise MissingError(f"node {node.name}: {fault.filename} not found") from None
        self.say(opening)

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are answers, or when the agent has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def ready(self) -> Machine:
        """Wait until it can start trials; return what it runs on. Raises MissingError where it cannot, or is silent."""
        ends = time.monotonic() + _OPENS_S
        while self._machine is None and not self.gone:
            if not select.select([self], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise MissingError(f"node {self.node.name}: no answer within {_OPENS_S:g} s")
            for answer in self.answers():
                if isinstance(answer, AgentRefused):
                    raise MissingError(f"node {self.node.name}: {answer.why}")
                if isinstance(answer, AgentReady):
                    self._machine = answer.machine
        if self._machine is None:
            code = self._process.wait()
            raise MissingError(f"node {self.node.name}: its agent ended with exit code {code}; the lines above say why")
        return self._machine

    def start(self, request: NodeRequest) -> None:
        """Have it start the ranks of a trial."""
        self.trials += 1
        self.say(Start(request))

    def say(self, word: Word) -> None:
        """Say a word. An agent that is gone does not hear it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(word) + b"\n")
            self._process.stdin.flush()

    def answers(self) -> Sequence[Answer]:
        """Return the answers of one read; at the end there are none, and it is gone."""
        data = os.read(self.fileno(), _CHUNK_BYTES)
        self.gone = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[Answer] = []
        for line in lines:
            try:
                found.append(decode(line, Answer))
            except Malformed as fault:
                raise TorchstoneError(f"node {self.node.name} answered what is no answer: {line[:200]!r}") from fault
        return found

    def wait(self) -> None:
        """Wait a while until its trial has ended, and hear no more of it. One that goes on has its agent ended."""
        ends = time.monotonic() + _ENDS_S
        while not self.gone and select.select([self], [], [], max(0.0, ends - time.monotonic()))[0]:
            if any(isinstance(answer, Over) and answer.number == self.trials for answer in self.answers()):
                return
        self.gone = True
        self.close()

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class SpreadTrial:
    """`here`: the process of the trial on this node. `peers`: those that were asked to start its ranks on theirs."""

    def __init__(self, here: LiveTrial, peers: Sequence[Peer], facts: Facts) -> None:
        self.pid = here.pid
        self.facts = merged(here.facts, facts)
        self._here, self._peers = here, tuple(peers)
        self._open: dict[int, Peer | None] = {here.fileno(): None, **{peer.fileno(): peer for peer in self._peers}}
        self._ends: list[Ended] = []
        self._ranks: dict[int, str] = {}  # by descriptor: whose stack comes from there
        self._said = self._died = self._is_over = False  # said: the process here has said its last word; died: without
        self._ready = select.epoll()
        self._over = os.eventfd(0)  # readable from then on, so that who waits for events learns that there are none
        for descriptor in (*self._open, self._over):
            self._ready.register(descriptor, select.EPOLLIN)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to hear from any node."""
        return self._ready.fileno()

    def events(self) -> Sequence[Event] | None:
        """Return the events that have arrived; None when nothing more is to be heard."""
        if self._is_over:
            return None
        found: list[Event] = []
        for descriptor, _ in self._ready.poll(0):
            if descriptor in self._open:
                peer = self._open[descriptor]
                found += self._heard_here() if peer is None else self._heard_from(peer)
        if (end := self._end()) is not None:
            found.append(end)
        if end is not None or self._died or not self._open:
            self._is_over = True
            os.eventfd_write(self._over, 1)
        return found

    def _heard_here(self) -> list[Event]:
        events = self._here.events()
        if events is None:
            self._close(self._here.fileno())
            self._died = not self._said
            return []
        own = [event for event in events if isinstance(event, Ended)]
        self._said = self._said or bool(own)
        self._ends += own
        here = self._here.fileno()
        rest = [event for event in events if not isinstance(event, Ended)]
        return [self._labelled(here, event.lines) if isinstance(event, Stack) else event for event in rest]

    def _heard_from(self, peer: Peer) -> list[Event]:
        found: list[Event] = []
        for answer in peer.answers():
            if isinstance(answer, Where):
                found.append(self._labelled(peer.fileno(), answer.lines))
            elif isinstance(answer, Over) and answer.number == peer.trials:
                self._close(peer.fileno())
                self._ends.append(_end_of(peer, answer))
        if peer.gone:
            self._close(peer.fileno())
            # Not the model's doing: interrupted, so that `resume` measures it again.
            self._ends.append(Ended(Outcome(Status.INTERRUPTED, f"node {peer.node.name}: lost")))
        return found

    def _labelled(self, source: int, lines: Sequence[str]) -> Stack:
        """Return a Stack that begins with its rank: what the nodes send piece by piece arrives in any order."""
        rank = self._ranks.get(source)
        told = tuple(lines) if rank is None else (rank, *lines)
        ranks = [line for line in lines if RANK.fullmatch(line.strip())]
        if ranks:
            self._ranks[source] = ranks[-1]
        return Stack(told)

    def _end(self) -> Ended | None:
        """Return the end of the whole: of the first node that failed for a reason of its own, else once all have."""
        failed = [end for end in self._ends if end.outcome.status != Status.OK]
        lost = [end for end in failed if end.outcome.status == Status.INTERRUPTED]  # whatever its peers say of that
        own = lost or [end for end in failed if end.outcome.reason != Reason.PEER_GONE]
        if own or self._open:
            return own[0] if own else None
        return (failed or self._ends)[0] if self._ends else None

    def _close(self, descriptor: int) -> None:
        self._ready.unregister(descriptor)
        del self._open[descriptor]

    def ask_where(self) -> None:
        """Ask the processes of all nodes for their Stacks."""
        self._here.ask_where()
        for peer in self._peers:
            peer.say(AskWhere())

    def kill(self) -> None:
        """End the processes of all nodes."""
        self._here.kill()
        for peer in self._peers:
            peer.say(Kill())

    def ending(self) -> str | None:
        """Wait until the processes of all nodes have ended; return what was wrong with that of this one, or None."""
        for peer in self._peers:
            peer.say(Kill())
        wrong = self._here.ending()
        for peer in self._peers:
            if peer.fileno() in self._open:
                self._close(peer.fileno())
                peer.wait()
        self._ready.close()
        os.close(self._over)
        return wrong


def _end_of(peer: Peer, over: Over) -> Ended:
    """Return how the ranks of another node ended, with its name where something went wrong there."""
    end = over.ended or Ended(Outcome(Status.CRASHED, over.wrong or "ended without a last word"))
    if end.outcome.status in (Status.OK, Status.UNSUPPORTED) or end.mistake is not None:
        return end
    message = f"node {peer.node.name}: {end.outcome.message}"
    return msgspec.structs.replace(end, outcome=msgspec.structs.replace(end.outcome, message=message))


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
        opening = AgentOpen(self._procedure, tuple(preload))
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

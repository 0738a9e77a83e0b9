"""A trial whose ranks are on several nodes, as one LiveTrial: its events are the first node's, its end that of all.

When a rank dies, those of other nodes fail too, as their peer is gone. What says only that yields to what another node
says; as soon as one node has failed for a reason of its own, all are ended.
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence

import msgspec

from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.message import Ended, Event, Stack
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.controller.nodes.peer import Peer
from torchstone.execution.controller.nodes.words import AskWhere, Kill, Over, Where
from torchstone.execution.controller.outcome import RANK
from torchstone.plugins.machine_protocols import LiveTrial


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

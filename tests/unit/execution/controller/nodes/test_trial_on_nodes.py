"""A trial on several nodes: whose end counts, and what becomes of the others."""

import os
import select
import sys

import msgspec
import pytest

from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import Ended, Entered, Event, Stack
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.controller.nodes import SpreadTrial
from torchstone.execution.worker.outcome import TrialEnd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked")
OK = Ended(Outcome(Status.OK))
GONE = Ended(Outcome(Status.CRASHED, "rank 0: RuntimeError: Connection closed by peer", reason=Reason.PEER_GONE))
FULL = Ended(Outcome(Status.OUT_OF_MEMORY, "rank 1: MemoryError"))


class Sender:
    """What sends what a test says, until it ends."""

    def __init__(self):
        self._read, self._write = os.pipe()
        self._sent = []

    def fileno(self):
        return self._read

    def sends(self, *words):
        self._sent.append(list(words))
        os.write(self._write, b".")

    def ends(self):
        os.close(self._write)

    def received(self):
        """One sending; None when it has ended."""
        return self._sent.pop(0) if os.read(self._read, 1) else None


class Here(Sender):
    """The process of a node."""

    def __init__(self):
        super().__init__()
        self.pid, self.facts, self.killed, self.asked = 1, Facts(threads_in_effect=1), False, False

    def events(self):
        return self.received()

    def ask_where(self):
        self.asked = True

    def kill(self):
        self.killed = True

    def ending(self):
        return "killed by SIGKILL"


@pytest.fixture
def here():
    return Here()


@pytest.fixture
def peers():
    return [Here(), Here()]


@pytest.fixture
def trial(here, peers):
    return SpreadTrial(here, dict(zip(("n2", "n3"), peers, strict=True)), Facts(unlike_nodes=("…",)))


def heard(trial):
    """Everything that is to be heard by now; None as the last where it is over."""
    found: list[Event | None] = []
    while select.select([trial], [], [], 0)[0]:
        events = trial.events()
        if events is None:
            return [*found, None]
        found += events
    return found


def test_it_ends_when_all_nodes_have_ended_well(trial, here, peers):
    began = Entered("warm-up", 1.0)
    here.sends(began)
    assert heard(trial) == [began]
    here.sends(OK)
    here.ends()
    assert heard(trial) == []
    peers[0].sends(OK)
    peers[0].ends()
    assert heard(trial) == []
    peers[1].sends(OK)
    peers[1].ends()
    assert heard(trial) == [OK, None]
    assert trial.facts == Facts(threads_in_effect=1, unlike_nodes=("…",))


def test_what_only_misses_a_peer_waits_for_the_reason(trial, here, peers):
    here.sends(GONE)
    here.ends()
    peers[0].sends(GONE)
    assert heard(trial) == []
    peers[1].sends(FULL)
    message = "node n3: rank 1: MemoryError"
    assert heard(trial) == [msgspec.structs.replace(FULL, outcome=Outcome(Status.OUT_OF_MEMORY, message)), None]


def test_a_reason_of_ones_own_ends_it_at_once(trial, peers, here):
    peers[0].sends(FULL)  # the ranks here may hang: NCCL does not notice
    assert [type(event) for event in heard(trial)] == [Ended, type(None)]
    assert trial.ending() == "killed by SIGKILL"
    assert here.killed
    assert all(peer.killed for peer in peers)


def test_where_all_miss_a_peer_the_first_says_so(trial, here, peers):
    here.sends(GONE)
    here.ends()
    for peer in peers:
        peer.sends(GONE)
        peer.ends()
    assert heard(trial) == [GONE, None]


def test_a_lost_node_is_a_reason(trial, peers):
    peers[1].ends()
    assert heard(trial) == [Ended(Outcome(Status.INTERRUPTED, "node n3: lost")), None]
    assert trial.lost == ["n3"]


def test_a_process_here_that_is_killed_leaves_the_reason_to_its_signal(trial, here):
    here.ends()
    assert heard(trial) == [None]
    assert trial.ending() == "killed by SIGKILL"


def test_what_no_device_can_do_is_told_without_a_node(trial, peers):
    cannot = Ended(Outcome(Status.UNSUPPORTED, "fp16: not here"))
    peers[0].sends(cannot)
    assert heard(trial) == [cannot, None]


def test_all_nodes_are_asked_where_they_are(trial, here, peers):
    trial.ask_where()
    assert all(one.asked for one in (here, *peers))
    here.sends(Stack(("rank 0",)))
    peers[0].sends(Entered("warm-up", 1.0), Stack(("rank 1",)))
    assert sorted(event.lines for event in heard(trial)) == [("rank 0",), ("rank 1",)]


def test_the_stacks_of_two_nodes_that_arrive_in_pieces_keep_their_ranks(trial, here, peers):
    """The piece of rank 1 with its own code comes after the other node has begun to say where rank 0 is."""
    line = '  File "/home/me/net.py", line 17 in forward'
    end = TrialEnd()
    for sender, word in (
        (peers[0], Stack(("rank 1",))), (here, Stack(("rank 0",))), (peers[0], Stack((line,))),
        (here, Stack(('  File "/usr/lib/python3/site-packages/torch/nn.py", line 3 in wait',))),
    ):  # fmt: skip
        sender.sends(word)
        for event in heard(trial):
            end.stack += event.lines
    assert " in rank 1 at " in str(end.timed_out(8.0).message)

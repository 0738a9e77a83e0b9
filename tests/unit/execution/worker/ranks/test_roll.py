"""Of several ranks that failed, the first says why; real processes are watched by the kernel's word."""

import faulthandler
import os
import signal
import sys
import time

import pytest

from torchstone.core.schema.message import Ended
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.worker.ranks.launching import Roll, first_failure, goodbye, hello

OK = Ended(Outcome(Status.OK))
GONE = Ended(
    Outcome(Status.CRASHED, "RuntimeError: Connection closed by peer", "RuntimeError: Conn", Reason.PEER_GONE),
)
LOST = Ended(Outcome(Status.CRASHED, "the loss is nan"))  # of all ranks: rank 0 says it, nothing was raised
FULL = Ended(Outcome(Status.OUT_OF_MEMORY, "MemoryError"))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open is Linux's")


@pytest.mark.parametrize(
    ("ends", "deaths", "status", "says"),
    [
        ({0: GONE}, [(1, "killed by SIGKILL"), (0, "exited with code 1")], Status.CRASHED, "rank 1: killed by SIGKILL"),
        ({0: GONE, 1: FULL}, [(1, "exited with code 1"), (0, "exited with code 1")], Status.OUT_OF_MEMORY,
         "rank 1: MemoryError"),
        ({0: FULL, 1: FULL}, [(1, "exited with code 1")], Status.OUT_OF_MEMORY, "MemoryError"),
        ({0: OK, 1: GONE}, [], Status.CRASHED, "rank 1: RuntimeError: Connection closed by peer"),
        ({0: LOST, 1: OK}, [(1, "exited with code 0"), (0, "exited with code 1")], Status.CRASHED, "the loss is nan"),
        ({0: GONE}, [(1, "exited with code 0"), (0, "exited with code 1")], Status.CRASHED,
         "rank 1: exited with code 0"),
        # The connection of rank 1 closed, and rank 0 ended of it, before rank 1 was dead.
        ({0: GONE}, [(0, "exited with code 1"), (1, "killed by SIGSEGV")], Status.CRASHED, "rank 1: killed by SIGSEGV"),
        ({0: GONE, 1: FULL}, [(0, "exited with code 1")], Status.OUT_OF_MEMORY, "rank 1: MemoryError"),
        # That of another node did: its own agent then ended rank 1.
        ({0: GONE}, [(0, "exited with code 1"), (1, "killed by SIGTERM")], Status.CRASHED,
         "rank 0: RuntimeError: Connection closed by peer"),
    ],
)  # fmt: skip
def test_the_first_that_failed_says_why(ends, deaths, status, says):
    found = first_failure(ends, deaths)
    assert found is not None
    assert (found.outcome.status, found.outcome.message) == (status, says)


def test_nothing_failed():
    assert first_failure({0: OK, 1: OK}, [(0, "exited with code 0"), (1, "exited with code 0")]) is None


def test_what_no_device_can_do_is_told_without_a_rank():
    cannot = Ended(Outcome(Status.UNSUPPORTED, "fp16: not here"))
    assert first_failure({0: cannot}, [(0, "exited with code 1")]) == cannot


def in_child(roll, rank, act):
    pid = os.fork()
    if pid == 0:
        hello(roll.descriptor(rank))
        act()
        os._exit(0)
    return pid


def test_a_killed_process_is_noticed_before_the_one_that_misses_it():
    roll = Roll(2)
    first = in_child(roll, 1, lambda: os.kill(os.getpid(), signal.SIGKILL))
    time.sleep(0.2)

    def miss_it():
        goodbye(roll.descriptor(0), GONE)
        os._exit(1)

    second = in_child(roll, 0, miss_it)
    time.sleep(0.2)
    for pid in (first, second):
        os.waitpid(pid, 0)
    roll.close()
    assert roll.pids == {0: second, 1: first}
    assert roll.outcome("ChildFailedError").outcome.message == "rank 1: killed by SIGKILL"


def test_a_rank_that_leaves_in_silence_ends_its_peers(monkeypatch):
    monkeypatch.setattr("torchstone.execution.worker.ranks.launching._LEFT_S", 0.2)
    roll = Roll(2)
    pids = [in_child(roll, 1, lambda: os._exit(0)), in_child(roll, 0, lambda: time.sleep(60.0))]
    began_s = time.monotonic()
    for pid in pids:
        os.waitpid(pid, 0)
    assert time.monotonic() - began_s < 10.0
    roll.close()
    assert roll.outcome("killed").outcome.message in ("rank 1: exited with code 0", "rank 1: ended")


def test_a_rank_that_has_ended_and_was_waited_for_before_it_is_watched_is_noticed(monkeypatch):
    """The agent may wait for a process before the thread has read which one it was."""
    monkeypatch.setattr("torchstone.execution.worker.ranks.launching._LEFT_S", 0.2)
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    roll = Roll(2)
    os.write(roll.descriptor(1), b"pid %d\n" % gone)
    left = in_child(roll, 0, lambda: time.sleep(60.0))
    began_s = time.monotonic()
    os.waitpid(left, 0)
    assert time.monotonic() - began_s < 10.0
    roll.close()
    assert roll.outcome("killed").outcome.message == "rank 1: ended"
    assert roll.outcome("killed", {1: -signal.SIGKILL}).outcome.message == "rank 1: killed by SIGKILL", (
        "the agent saw it"
    )


def test_each_rank_says_itself_where_it_is_and_one_that_cannot_is_told():
    roll = Roll(2)

    def answer():
        faulthandler.register(signal.SIGUSR2, roll.descriptor(0), all_threads=False)
        goodbye(roll.descriptor(0), OK)
        time.sleep(60.0)

    pids = [in_child(roll, 0, answer), in_child(roll, 1, lambda: os.kill(os.getpid(), signal.SIGSTOP))]
    time.sleep(0.5)
    found = roll.where()
    assert b"in answer" in b"".join(found[0])
    assert found[1] == [b"no answer, stopped by a signal (SIGSTOP)\n"]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    roll.close()


def test_all_went_well():
    roll = Roll(1)
    pid = in_child(roll, 0, lambda: goodbye(roll.descriptor(0), OK))
    os.waitpid(pid, 0)
    roll.close()
    assert roll.outcome(None).outcome == Outcome(Status.OK)


def test_without_a_word_the_agents_counts():
    roll = Roll(1)
    roll.close()
    assert roll.outcome("RendezvousTimeoutError: ").outcome == Outcome(Status.CRASHED, "RendezvousTimeoutError: ")

"""What is known of an end: killed by the kernel or by somebody, and whose line the interpreter's last words name."""

import pytest

from torchstone.core.messages import Values
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.worker import outcome as module
from torchstone.execution.worker.outcome import TrialEnd


@pytest.fixture
def kills(monkeypatch):
    counted = [0, 0]
    monkeypatch.setattr(module, "oom_kills", lambda: tuple(counted))
    return counted


def test_a_sigkill_is_the_kernels_only_if_its_counter_rose(kills):
    known = TrialEnd()
    known.stage = "warm-up"
    mere = known.died("killed by SIGKILL")
    assert mere.status == Status.CRASHED
    assert mere.message == "killed by SIGKILL during warm-up, not by the kernel's out-of-memory killer"
    kills[1] += 1
    struck = known.died("killed by SIGKILL")
    assert struck.status == Status.OUT_OF_MEMORY
    assert struck.message == "killed by the kernel's out-of-memory killer during warm-up"
    assert known.died("killed by SIGSEGV").status == Status.CRASHED


def test_where_the_kernel_does_not_count_both_are_named(monkeypatch):
    monkeypatch.setattr(module, "oom_kills", tuple)
    outcome = TrialEnd().died("killed by SIGKILL")
    assert outcome.status == Status.CRASHED
    assert outcome.message == "killed by SIGKILL, by kill -9 from outside, or by the kernel's out-of-memory killer"


def test_a_loaders_process_that_the_kernel_killed_is_out_of_memory(kills):
    known = TrialEnd()
    said = Outcome(Status.CRASHED, "RuntimeError: it is killed", reason=Reason.LOADER_KILLED)
    assert known.refined(said) == said
    kills[0] += 1
    assert known.refined(said).status == Status.OUT_OF_MEMORY
    other = Outcome(Status.CRASHED, "ValueError: bad")
    assert known.refined(other) == other


@pytest.mark.parametrize(("killed", "status"), [(1, Status.OUT_OF_MEMORY), (0, Status.CRASHED)])
def test_a_rank_that_died_without_a_word_is_named_with_what_the_kernel_did(kills, killed, status):
    known = TrialEnd()
    kills[0] += killed
    values: Values = {"rank": 1, "wrong": "killed by SIGKILL"}
    found = known.refined(Outcome(Status.CRASHED, "rank 1: killed by SIGKILL", reason=Reason.RANK_DIED, values=values))
    assert found.status == status
    assert str(found.message).startswith("rank 1: killed by")
    gone = Outcome(Status.CRASHED, "rank 1: ended", reason=Reason.RANK_DIED, values={"rank": 1, "wrong": "ended"})
    assert known.refined(gone) == gone


FATAL = """Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/home/me/other.py", line 5 in wait

Current thread 0x00007f02 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 9 in linear
  File "/home/me/mine.py", line 12 in forward
  File "/home/me/mine.py", line 2 in outer

Extension modules: torch._C (total: 1)""".splitlines()


def test_the_innermost_own_line_of_the_thread_that_ended_is_named():
    known = TrialEnd()
    known.stack = FATAL
    outcome = known.died("killed by SIGSEGV")
    assert outcome.message == "killed by SIGSEGV at mine.py:12 in forward"
    assert outcome.traceback == (
        '  File "/home/me/mine.py", line 2, in outer\n  File "/home/me/mine.py", line 12, in forward'
    )


def test_a_thread_without_the_users_lines_leaves_it_to_the_others():
    known = TrialEnd()
    known.stack = [line for line in FATAL if "mine.py" not in line]
    assert known.died("killed by SIGSEGV").message == "killed by SIGSEGV at other.py:5 in wait"
    known.stack = [line for line in known.stack if "/home" not in line]
    outcome = known.died("killed by SIGSEGV")
    assert outcome.message == "killed by SIGSEGV"
    assert "functional.py" in str(outcome.traceback)


WAITS = """Current thread 0x01 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_gather
  File "/home/me/mine.py", line 12 in forward""".splitlines()
WORKS = ["Current thread 0x01 (most recent call first):", '  File "/home/me/mine.py", line 30 in loop']


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        (["rank 0", *WAITS, "rank 1", *WORKS], " in rank 1 at mine.py:30 in loop"),
        (["rank 0", *WORKS, "rank 1", "no answer, stopped by a signal (SIGSTOP)"],
         " in rank 1: no answer, stopped by a signal (SIGSTOP)"),
        (["rank 0", *WORKS, "rank 1", *WORKS], " at mine.py:30 in loop"),
    ],
)  # fmt: skip
def test_of_ranks_that_hang_the_one_is_named_that_the_others_wait_for(stack, says):
    known = TrialEnd()
    known.stack = stack
    assert known.timed_out(8.0).message == f"timed out after 8 s{says}"
    assert known.hung(61.4).message == f"no step for 61 s{says}"

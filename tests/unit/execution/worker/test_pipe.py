"""What a process that was prepared for its end leaves in its pipe, and what its children do not."""

import os
import signal
import subprocess
import sys

import pytest

from torchstone.execution.worker.outcome import frames_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")


def said_by(code: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Run code in a prepared process; return what came through its pipe, and the process."""
    readable, writable = os.pipe()
    prepared = (
        f"from torchstone.execution.worker import pipe\npipe.prepare_process({writable})\nimport os, signal, time\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prepared + code], pass_fds=(writable,), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    os.close(writable)
    with os.fdopen(readable) as pipe:
        return pipe.read(), done


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS"])
def test_a_fatal_signal_leaves_the_stack(name):
    said, done = said_by(f"def deep():\n    os.kill(os.getpid(), signal.{name})\ndeep()\n")
    assert done.returncode == -signal.Signals[name]
    assert ("<string>", 5, "deep") in frames_in(said)


def test_asked_where_it_is_it_says_so_and_goes_on():
    said, done = said_by("def deep():\n    os.kill(os.getpid(), signal.SIGUSR2)\ndeep()\nprint('went on')")
    assert done.stdout == "went on\n"
    assert frames_in(said)[0] == ("<string>", 5, "deep")


def test_a_child_does_not_keep_the_pipe_open_and_its_words_go_to_stderr():
    code = (
        "if os.fork() == 0:\n    os.kill(os.getpid(), signal.SIGUSR2)\n    time.sleep(30)\nelse:\n    time.sleep(0.3)"
    )
    readable, writable = os.pipe()
    prepared = (
        f"from torchstone.execution.worker import pipe\npipe.prepare_process({writable})\nimport os, signal, time\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", prepared + code], pass_fds=(writable,), stderr=subprocess.PIPE, start_new_session=True
    )
    os.close(writable)
    process.wait(20)
    try:
        assert os.read(readable, 1) == b"", "the pipe ends with the parent, though the child lives"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        os.close(readable)
    assert b"most recent call first" in process.communicate()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own score")
def test_it_is_what_the_kernel_takes_first_when_memory_ends():
    _, done = said_by("print(open('/proc/self/oom_score_adj').read())")
    assert done.stdout.strip() == "1000"

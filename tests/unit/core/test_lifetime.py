"""A process that lives as long as the one that forked it, whenever that is killed."""

import os
import signal
import sys
import time

import pytest

from torchstone.core.cores import end_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")


def a_child_of(doing):
    """Fork a process that forks one which does this; return the first one's pid, and an end of a pipe of the second."""
    line, theirs = os.pipe()
    first = os.fork()
    if first == 0:
        parent = os.getpid()
        if os.fork() == 0:
            doing(parent, theirs)
            os._exit(0)
        time.sleep(60.0)
    os.close(theirs)
    return first, line


def killed(first):
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)


def said(line):
    with os.fdopen(line, "rb") as all_of_it:
        return all_of_it.read()


def test_it_is_killed_with_its_parent():
    def doing(parent, line):
        end_with(parent)
        os.write(line, b"lives")
        time.sleep(60.0)

    first, line = a_child_of(doing)
    assert os.read(line, 5) == b"lives"
    killed(first)
    assert said(line) == b""


def test_it_ends_where_its_parent_was_killed_before_it_could_ask():
    def doing(parent, line):
        os.write(line, b"forked")
        while os.getppid() == parent:
            time.sleep(0.01)
        end_with(parent)
        os.write(line, b"lives on")

    first, line = a_child_of(doing)
    assert os.read(line, 6) == b"forked"
    killed(first)
    assert said(line) == b""

"""What a wait status says, and the environment of trials."""

import os
import subprocess
import sys
import time

import pytest

from torchstone.launchers._process import PipedTrial, describe_status, environment, line_to_a_trial
from torchstone.terms.codec import encode
from torchstone.terms.message import Entered, Stack


@pytest.mark.parametrize(
    ("status", "said"),
    [(0, None), (11, "killed by SIGSEGV"), (6, "killed by SIGABRT"), (3 << 8, "exited with code 3")],
)
def test_statuses(status, said):
    assert describe_status(status) == said


def piped(text):
    readable, writable = os.pipe()
    os.write(writable, text)
    os.close(writable)
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    return PipedTrial(process.pid, readable, lambda: -process.wait())


def test_what_is_no_event_is_the_interpreters_last_words():
    event = encode(Entered("warm-up", 1.0))
    live = piped(event + b'\nFatal Python error: Segmentation fault\n\n  File "m.py", line 3 in f\n{"event":"mea')
    told, stack = live.events()
    assert told == Entered("warm-up", 1.0)
    assert stack == Stack(("Fatal Python error: Segmentation fault", "", '  File "m.py", line 3 in f'))
    assert live.events() is None
    live.ending()


def test_a_process_that_closes_its_pipe_and_lives_on_is_ended():
    live = piped(b"")
    assert live.events() is None
    began_s = time.monotonic()
    assert live.ending() == "killed by SIGKILL"
    assert time.monotonic() - began_s < 5.0
    live.ask_where()  # too late to ask, and no fault


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_the_fixed_heap_is_the_environments(monkeypatch):
    monkeypatch.setenv("MINE", "kept")
    assert environment("fixed")["MINE"] == "kept"
    assert int(environment("fixed")["MALLOC_MMAP_THRESHOLD_"]) == 1 << 30
    assert "MALLOC_MMAP_THRESHOLD_" not in environment("default") or "MALLOC_MMAP_THRESHOLD_" in os.environ


def test_a_folder_of_its_own_goes_before_what_is_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    (tmp_path / "src").mkdir()
    before = environment("default", tmp_path)["PYTHONPATH"].split(os.pathsep)
    assert before == [str(tmp_path), str(tmp_path / "src"), "/elsewhere"]
    assert environment("default")["PYTHONPATH"] == "/elsewhere"


def test_a_line_carries_words_both_ways_and_a_kill_with_a_word_unread_is_an_end():
    ours, theirs = line_to_a_trial()
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    live = PipedTrial(process.pid, ours, lambda: -process.wait())
    os.write(live.fileno(), b"a word\n")
    assert os.read(theirs, 100) == b"a word\n"
    os.write(theirs, encode(Entered("warm-up", 1.0)) + b"\n")
    assert live.events() == [Entered("warm-up", 1.0)]
    os.write(live.fileno(), b"another that nobody reads\n")
    os.close(theirs)
    assert live.events() is None
    live.ending()

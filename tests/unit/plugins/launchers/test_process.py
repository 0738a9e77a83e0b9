"""What a wait status says, and the environment of trials."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchstone.core.schema.codec import encode
from torchstone.core.schema.message import Entered, Stack
from torchstone.plugins.launchers._process import PipedTrial, describe_status, environment, line_to_a_trial


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
    assert stack == Stack(("Fatal Python error: Segmentation fault", '  File "m.py", line 3 in f'))
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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_a_huge_heap_keeps_its_memory_and_what_the_user_tunes(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    own = environment("huge")
    assert int(own["MALLOC_MMAP_THRESHOLD_"]) == 1 << 30
    assert own["GLIBC_TUNABLES"] == "glibc.malloc.check=0:glibc.malloc.hugetlb=1"
    assert environment("fixed")["GLIBC_TUNABLES"] == "glibc.malloc.check=0"


_HUGE_BYTES = """
kept = bytearray(b"x") * (64 << 20)
lines = open("/proc/self/smaps_rollup").read().splitlines()
print(next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages")))
"""


def _gives_huge_pages() -> bool:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    library, version = platform.libc_ver()
    new = library == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)
    return new and enabled.exists() and "[never]" not in enabled.read_text()


@pytest.mark.skipif(not _gives_huge_pages(), reason="needs glibc 2.35 and a kernel that gives huge pages when asked")
def test_a_huge_heap_lies_in_huge_pages():
    def huge_kb(heap: str) -> int:
        told = subprocess.run(
            [sys.executable, "-c", _HUGE_BYTES], env=dict(environment(heap)), capture_output=True, text=True, check=True
        )
        return int(told.stdout)

    assert huge_kb("huge") >= 32 << 10
    if "[always]" not in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        assert huge_kb("fixed") < 32 << 10


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


@pytest.mark.skipif(sys.platform != "linux", reason="where threads can be bound")
def test_threads_are_pinned_where_it_is_asked_for_and_the_user_does_not_bind_them(monkeypatch):
    for name in ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"):
        monkeypatch.delenv(name, raising=False)
    assert "OMP_PROC_BIND" not in environment("fixed")
    own = environment("fixed", pin_threads=True)
    assert (own["OMP_PROC_BIND"], own["OMP_PLACES"]) == ("spread", "threads")
    monkeypatch.setenv("OMP_PROC_BIND", "false")
    own = environment("fixed", pin_threads=True)
    assert own["OMP_PROC_BIND"] == "false"
    assert "OMP_PLACES" not in own

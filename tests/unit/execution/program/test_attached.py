"""Attaching to a program: which process it is, what py-spy writes of it, and what is shown of its files."""

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest
from attached import ASKING, FORWARD, a_process, a_target, speedscope

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.execution.program import attached
from torchstone.execution.program.attached import Target, code_of, find_process, forbidden, threads_of, watch

PYTHON, TORCH = "/usr/bin/python3.11", "/env/site-packages/torch/lib/libtorch_cpu.so"


@pytest.fixture
def proc(tmp_path):
    folder = tmp_path / "proc"
    a_process(folder, 1, 0)
    (folder / "self").mkdir()
    (folder / "self/stat").write_text("")
    return folder


def test_the_process_itself_or_the_first_with_python_below_it(proc):
    a_process(proc, 40, maps=["/usr/bin/bash"], command="bash run.sh")
    a_process(proc, 42, 40, [PYTHON, TORCH, "/dev/nvidiactl", "/dev/nvidia3"], RANK="2", SECRET="hidden")
    a_process(proc, 43, 42, [PYTHON, TORCH])
    for pid in (40, 42):
        found = find_process(pid, proc)
        assert (found.process.pid, found.process.rank, found.started) == (42, 2, "77")
        assert (found.device.kind, found.device.index) == ("cuda", 3)
        assert found.process.torch_root == "/env/site-packages/torch"
        assert "hidden" not in repr(found)
    assert find_process(43, proc).device.kind == "cpu"
    assert attached.descendants(40, proc) == [42, 43]


def test_what_is_no_training_is_one_line(proc):
    a_process(proc, 50, maps=["/usr/bin/sleep"], command="sleep 9 \x1b[31m")
    a_process(proc, 51, maps=[PYTHON])
    a_process(proc, 52, maps=[PYTHON, TORCH])
    ended = (proc / "52/stat").read_text().replace(" S ", " Z ")
    (proc / "52/stat").write_text(ended)
    for pid, said in (
        (49, "there is no process 49"),
        (52, "there is no process 52"),
        (50, "is no Python program"),
        (51, "has not imported torch"),
    ):
        with pytest.raises(UsageError, match=said) as fault:
            find_process(pid, proc)
        assert str(fault.value).isprintable()
    with pytest.raises(MissingError, match="/proc"):
        find_process(50, proc / "nowhere")


@pytest.mark.parametrize(("user", "typed"), [(0, "SYS_PTRACE"), (1000, 'sudo env "PATH=$PATH" torchstone attach 42')])
def test_a_forbidden_process_is_told_with_what_to_type(user, typed, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert typed in forbidden(42)
    assert forbidden(42).isprintable()


# ── what py-spy writes is somebody else's text ──────────────────────────────────────────────────────────────


def test_threads_and_stacks_are_read_in_their_order():
    stacks = [FORWARD, ASKING, FORWARD]
    (found,) = threads_of(speedscope({'Process 42 Thread 43 "Main\nThread"': stacks, "strange": stacks}).encode())
    assert (found.pid, found.tid, found.stacks) == (42, 43, tuple(stacks))
    (found,) = threads_of(speedscope({"Process 42 Thread 0x2B": stacks}).encode())
    assert found.tid == 43


def test_hostile_text_is_bounded_and_plain():
    frames = [
        {"name": "\x1b[31m" + "n" * 9000, "file": "a\u202eb", "line": 10**30},
        {"name": "x", "file": None, "line": -5},
    ]
    profile = {"name": "Process 1 Thread 1", "samples": [[0, 1, 2, -1, 99], [0] * 5000]}
    (found,) = threads_of(json.dumps({"profiles": [profile], "shared": {"frames": frames}}).encode())
    assert [len(stack) for stack in found.stacks] == [2, 500], "places that there are not, and a recursion"
    first, second = found.stacks[0]
    assert first.name.isprintable()
    assert first.file.isprintable()
    assert len(first.name) == 300
    assert (first.line, second.file, second.line) == (1 << 31, "", 0)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"profiles": 3, "shared": {}}', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_profile_is_one_line(data):
    with pytest.raises(TorchstoneError, match="cannot be read") as fault:
        threads_of(data)
    assert str(fault.value).isprintable()


def test_lines_are_shown_only_of_files_that_the_programs_user_could_read(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text("first\n  x.item()\t# \x1b[31m\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    mine, pid = os.getuid(), os.getpid()
    monkeypatch.setattr(attached, "_readable", lambda _place, about, uid: about.st_uid == uid)
    assert code_of(str(script), 2, pid, mine) == "x.item() # \N{REPLACEMENT CHARACTER}[31m"
    assert code_of(str(script), 2, pid, mine + 1) == ""
    assert code_of(str(script), 9, pid, mine) == code_of(str(tmp_path), 1, pid, mine) == ""
    os.mkfifo(tmp_path / "pipe")
    assert code_of(str(tmp_path / "pipe"), 1, pid, mine) == ""


def test_a_file_is_readable_by_its_mode_and_those_of_the_folders_above(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    script = folder / "train.py"
    script.write_text("secret")
    user = os.getuid() + 1
    for place, mode in ((folder, 0o700), (script, 0o600)):
        place.chmod(mode)
        assert not attached._readable(script, script.stat(), user)
        place.chmod(mode | stat.S_IROTH | stat.S_IXOTH)


# ── watching ────────────────────────────────────────────────────────────────────────────────────────────────

SPY = """#!{python}
import signal, sys, time
def end(*_):
    if {writes}: open(sys.argv[sys.argv.index("--output") + 1], "w").write({text!r})
    {after}
    sys.exit(0)
signal.signal(signal.SIGINT, end)
assert "--nonblocking" in sys.argv
{begin}
open({ready!r}, "w").close()
time.sleep(60)
"""


@pytest.fixture
def spying(tmp_path):
    def at(begin="", after="", *, writes=True):
        spy, ready = tmp_path / "py-spy", tmp_path / "ready"
        text = speedscope({'Process 42 Thread 42 "MainThread"': [FORWARD] * 5})
        spy.write_text(
            SPY.format(python=sys.executable, text=text, begin=begin, after=after, writes=writes, ready=str(ready))
        )
        spy.chmod(0o755)
        process, proc = attached.Process(os.getpid(), ("python",)), Path("/proc")
        target = Target(process, a_target().device, None, os.getuid(), attached._started(os.getpid(), proc))
        moments = iter([0.0, 1.0, 2.0, 3.0])
        ends = time.monotonic() + 60.0

        def sleep(_: float) -> None:
            while not ready.exists() and time.monotonic() < ends:
                time.sleep(0.05)

        # Where py-spy ends by itself that is waited for; else its time is over as soon as it has begun.
        clock = time.monotonic if begin else lambda: next(moments)
        return watch(target, 60.0 if begin else 2.0, clock, time.sleep if begin else sleep, str(spy))

    return at


def test_py_spy_is_interrupted_after_its_time_and_what_it_wrote_is_read(spying):
    found = spying()
    assert [len(one.stacks) for one in found.threads] == [5]
    assert found.elapsed_s == 3.0
    assert not found.ended
    assert found.spent[os.getpid()].threads_s
    assert found.cost_s >= 0.0


@pytest.mark.parametrize(
    ("begin", "error", "said"),
    [('sys.exit("Permission Denied: Try running again")', MissingError, "ptrace"),
     ('sys.exit("Error: Failed to get process executable name")', TorchstoneError, "has ended meanwhile"),
     ('sys.exit("Error: \\x1b[31m broken")', TorchstoneError, "could not read")],
)  # fmt: skip
def test_why_py_spy_saw_nothing_is_one_line(spying, begin, error, said):
    with pytest.raises(error, match=said) as fault:
        spying(begin)
    assert str(fault.value).isprintable()


def test_a_py_spy_that_does_not_end_is_killed(spying, monkeypatch):
    monkeypatch.setattr(attached, "_GRACE_S", 0.3)
    with pytest.raises(TorchstoneError, match="did not end"):
        spying(after="time.sleep(60)", writes=False)


def test_without_py_spy_it_is_told_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"pip install 'torchstone\[attach\]'"):
        attached.py_spy()

"""Gives a step a process of its own, ends it with everything that it started, and reads what it has told by then."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_sheet.expecting import Figure
from run_sheet.results import State
from run_sheet.step import Step

MARK = "RUN_SHEET_FOLDER"  # in the environment of everything that a step starts: that is how it is found again
_SAID = 12  # lines of what it wrote that are kept
_BEAT_S = 0.05
_PATIENCE_S = 10.0  # for what was killed to be gone


@dataclass
class Ended:
    """How a step's process ended, and what it had told by then."""

    state: State
    took_s: float
    figures: dict[str, Figure] = field(default_factory=dict)
    why: str | None = None
    said: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """What every step is told: the device, whether to be quick, how trials start, where to write, what to import."""

    device: str
    quick: bool
    isolation: str | None
    folder: Path
    paths: tuple[Path, ...]


def take(step: Step, asked: Asked, limit_s: float, *, own_limit: bool) -> Ended:
    """Take a step. `own_limit`: whether `limit_s` is the step's own, or what is left of its part's time.

    Whatever ends this call, KeyboardInterrupt too, nothing that the step started is left.
    """
    folder = _fresh(asked.folder / "steps" / step.id)
    answers, log = folder / "answers.jsonl", folder / "log.txt"
    answers.write_bytes(b"")
    killed_before, began_s = _kernel_kills(), time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            _command(step, asked, folder), cwd=folder, env=_environment(asked), stdin=subprocess.DEVNULL,
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = _wait(process, began_s + limit_s)
        finally:
            end_all(asked.folder, process)
    ended = _read(answers, code, out_of_memory=_kernel_kills() > killed_before)
    ended.took_s, ended.said = time.monotonic() - began_s, _last_lines(log)
    if code is None:
        ended.state = State.TOO_LONG if own_limit else State.CUT
        whose = "its limit" if own_limit else "what was left to its part"
        ended.why = f"it did not end within {limit_s:.0f} s, {whose}"
    return ended


def _fresh(folder: Path) -> Path:
    """Make the folder of a step; what an attempt before has left is moved aside, not lost."""
    if folder.exists():
        taken = {path.name for path in folder.parent.glob(f"{folder.name}.*")}
        number = next(n for n in range(1, len(taken) + 2) if f"{folder.name}.{n}" not in taken)
        folder.rename(folder.with_name(f"{folder.name}.{number}"))
    folder.mkdir(parents=True)
    return folder


def figures_so_far(folder: Path, step: Step) -> dict[str, Figure]:
    """Return what a step that was cut has told."""
    path = folder / "steps" / step.id / "answers.jsonl"
    return _read(path, None, out_of_memory=False).figures if path.exists() else {}


def end_all(folder: Path, process: subprocess.Popen[bytes] | None = None) -> int:
    """Kill what a step has started, of this call or an earlier one, and return how many processes that was.

    Trials are leaders of sessions of their own, so no process group holds them all; the mark in their environment does.
    """
    found = 0
    if process is not None and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
            found += 1
    ends_s = time.monotonic() + _PATIENCE_S
    while (living := list(_marked(str(folder)))) and time.monotonic() < ends_s:
        for pid in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                found += 1
        time.sleep(_BEAT_S)
    if process is not None:
        process.wait()
    return found


def _marked(folder: str) -> Iterator[int]:
    """Yield the processes that carry the mark of a folder; none where there is no /proc, and sessions have to do."""
    mark = f"{MARK}={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ") if Path("/proc/self/environ").exists() else ():
        pid = int(path.parent.name)
        if pid == os.getpid():
            continue
        try:
            if mark in path.read_bytes().split(b"\0") and not _is_dead(pid):
                yield pid
        except OSError:  # gone meanwhile, or somebody else's
            continue


def _is_dead(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return state[:1] == ["Z"]


def _command(step: Step, asked: Asked, folder: Path) -> list[str]:
    words = [sys.executable, "-m", "run_sheet.one_step", step.id, step.do, "--device", asked.device]
    words += ["--folder", str(folder), "--parent", str(os.getpid())]
    words += ["--quick"] * asked.quick
    return [*words, "--isolation", asked.isolation] if asked.isolation else words


def _environment(asked: Asked) -> Mapping[str, str]:
    own = dict(os.environ)
    before = [own["PYTHONPATH"]] if own.get("PYTHONPATH") else []
    own["PYTHONPATH"] = os.pathsep.join([*map(str, asked.paths), *before])
    # A step that waits for others would look like one that hangs. A CPU is never one's own, and little is asked of it.
    own.setdefault("TORCHSTONE_WHEN_BUSY", "share" if asked.device == "cpu" else "refuse")
    own.setdefault("HF_HUB_OFFLINE", "1")  # models are built from their configs: nothing is asked of a network
    own.setdefault("TOKENIZERS_PARALLELISM", "false")
    own["TORCHSTONE_CACHE"] = str(asked.folder / "cache")
    own["PYTHONUNBUFFERED"] = "1"
    own[MARK] = str(asked.folder)
    return own


def _wait(process: subprocess.Popen[bytes], ends_s: float) -> int | None:
    """Return the exit code (negative: the signal), or None where the time is over."""
    try:
        return process.wait(max(0.0, ends_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _read(answers: Path, code: int | None, *, out_of_memory: bool) -> Ended:
    """Read what a step has told line by line, and say how it ended. A torn last line is that of a process killed."""
    ended = Ended(State.NO_ANSWER, 0.0, why="it ended without an answer")
    whole = answers.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(whole, 1):
        try:
            told = json.loads(line)
            _hear(ended, told)
        except (ValueError, TypeError, KeyError) as error:
            ended.state, ended.why = State.WRONG_ANSWER, f"line {number} of its answers: {error}"
            return ended
    if ended.state not in (State.NO_ANSWER, State.DONE):
        return ended
    if out_of_memory and code is not None and code < 0:
        ended.state, ended.why = State.OUT_OF_MEMORY, "the kernel killed it for want of memory"
    elif code is not None and code < 0:
        ended.state, ended.why = State.CRASHED, f"killed by {signal.Signals(-code).name}"
    elif code not in (0, None):
        ended.state, ended.why = State.CRASHED, f"it exited with code {code}"
    elif ended.state == State.DONE and not ended.figures:
        ended.state, ended.why = State.NO_ANSWER, "it came to its end and told no figure"
    return ended


def _hear(ended: Ended, told: Any) -> None:
    """Take one line. Raises ValueError, TypeError or KeyError where it is none of the four there are."""
    if not isinstance(told, dict):
        raise TypeError(f"{type(told).__name__} is no answer")
    if "figure" in told:
        name, value = told["figure"], told["value"]
        if not isinstance(name, str) or not (value is None or isinstance(value, bool | int | float | str)):
            raise TypeError(f"{name}: {type(value).__name__} is no figure")
        ended.figures[name] = None if isinstance(value, float) and not math.isfinite(value) else value
    elif "failed" in told:
        ended.state, ended.why = State(told["failed"]), str(told["why"])
    elif "not_here" in told:
        ended.state, ended.why = State.NOT_HERE, str(told["not_here"])
    elif told.get("end") is True:
        ended.state, ended.why = State.DONE, None
    else:
        raise ValueError(f"{', '.join(map(str, told))} is no answer")


def _kernel_kills() -> int:
    """Return how many processes the kernel has killed for want of memory, as far as it tells."""
    total = 0
    for path in (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")):
        with contextlib.suppress(OSError):
            for line in path.read_text(encoding="ascii", errors="replace").splitlines():
                name, _, value = line.partition(" ")
                total += int(value) if name == "oom_kill" and value.strip().isdigit() else 0
    return total


def _last_lines(log: Path) -> list[str]:
    with log.open(encoding="utf-8", errors="replace") as file:
        return [line.rstrip() for line in deque(file, _SAID)]

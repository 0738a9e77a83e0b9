"""A program as a process: started as it was typed, or forked from one that waits before it builds anything."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.message import RehearseRequest, TrialRequest, TurnsRequest
from torchstone.execution.program.workspace import mirrored
from torchstone.execution.timing.clock import system_clock

SCHEME = "program"
STREAMS = ("stdout", "stderr")
SAMPLED_S = 1.5
Started = TrialRequest | RehearseRequest | TurnsRequest
Key = tuple[Sequence[str], str]  # what two programs have in common that may be forked from the same process
_HOOKS = Path(__file__).resolve().parent / "hooks"
_CHUNK_BYTES = 1 << 16
_LOOK_S = 0.1
_WARMUP, _WARMUP_S = 3, 0.5
# What heap=fixed is in somebody's own program: glibc keeps what it was given.
_FIXED_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}


def words_of(model: str, configuration: Mapping[str, Scalar] = {}) -> list[str]:
    """Return the words of a command: `{name}` is the value of that axis."""
    words = shlex.split(model.removeprefix(f"{SCHEME}:"))
    for name, value in configuration.items():
        words = [word.replace(f"{{{name}}}", _spelt(value)) for word in words]
    return words


def others_of(model: str, configuration: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the settings that have no place in a command: the hooks set them, and `heap` the environment."""
    return {name: value for name, value in configuration.items() if f"{{{name}}}" not in model}


def _spelt(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class ProgramProcess(Protocol):
    """A program that runs. `here`: the folder that the one it works in looks like; `streams`: what it writes."""

    pid: int
    place: Path
    folder: Path
    here: Path
    listener: socket.socket
    streams: Mapping[str, BinaryIO]

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def wait(self) -> int:
        """Return its exit code when it has ended."""

    def close(self) -> None:
        """Delete what it worked in."""


class _Listening:
    """The place where a program's hooks and files are."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="torchstone-"))
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.place / "hooks"))
        self.listener.listen(8)

    def close(self) -> None:
        """Delete it."""
        self.listener.close()
        shutil.rmtree(self.place, ignore_errors=True)


class FreshProgram(_Listening):
    """A new process of the command (ProgramProcess)."""

    def __init__(
        self, request: Started, here: Path | None = None, *, silent: bool = False, compiler: bool = False
    ) -> None:
        """Start it. `here`: what its folder looks like; None: where the controller works. `silent`: nobody reads it.

        `compiler`: where it waits it has torch's compiler imported, which takes a second: any optimizer imports it.
        Raises UsageError where its folder cannot be mirrored or the command is not there.
        """
        super().__init__()
        is_revision = here is not None
        words, here = words_of(request.case.workload.model, request.case.configuration), here or Path.cwd()
        self.folder = self.here = here
        if os.sep in words[0] and not (here / words[0]).exists() and Path(words[0]).exists():
            words[0] = str(Path.cwd() / words[0])  # of an environment beside the code, which has no mirror
        stream = subprocess.DEVNULL if silent else subprocess.PIPE
        try:
            if not request.procedure.in_place:
                self.folder = mirrored(here, self.place / "work")
            self._process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=_environment(request, self.place, self.folder if is_revision else None, compiler=compiler),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        except BaseException as fault:
            self.close()
            if isinstance(fault, OSError):
                raise UsageError(f"{words[0]}: {fault.strerror}") from None
            raise
        self.pid = self._process.pid
        self.poll, self.wait = self._process.poll, self._process.wait
        self.streams: Mapping[str, Any] = {} if silent else {name: getattr(self._process, name) for name in STREAMS}


def _environment(request: Started, place: Path, revision: Path | None, *, compiler: bool) -> dict[str, str]:
    """Return what a program finds in its environment: `revision`, its work tree, comes before what is installed."""
    others = others_of(request.case.workload.model, request.case.configuration)
    base = {**os.environ, **(_FIXED_HEAP if others.pop("heap", None) == "fixed" else {})}
    if "threads" in others:
        base["OMP_NUM_THREADS"] = str(others["threads"])
    sources = [revision, revision / "src"] if revision is not None else []
    own = [str(path) for path in sources if path.is_dir()]
    paths = [str(_HOOKS), *own, *filter(None, [base.get("PYTHONPATH")])]
    return {
        **base,
        "PYTHONPATH": os.pathsep.join(paths),
        "TORCHSTONE_PROGRAM": str(place / "hooks"),
        "TORCHSTONE_PROGRAM_PLAN": json.dumps(_plan(request, others, compiler=compiler)),
        "PYTHONUNBUFFERED": "1",
    }


def _plan(request: Started, others: Mapping[str, Scalar], *, compiler: bool) -> dict[str, Any]:
    """Return what the hooks are told: `waits` is who may have the program wait before it builds anything."""
    how, fixed = request.procedure, request.case.workload.fixed
    turns, rehearses = isinstance(request, TurnsRequest), isinstance(request, RehearseRequest)
    return {
        "rehearse": rehearses,
        "turns": turns,
        "waits": os.getpid() if turns or (isinstance(request, RehearseRequest) and request.for_turns) else None,
        "compiler": compiler,
        "warmup": _WARMUP if how.warmup is None else how.warmup,
        "warmup_s": min(_WARMUP_S, how.warmup_budget_s),
        "budget_s": how.budget_s,
        "min_steps": how.min_steps,
        "iterations": how.iterations,
        "goes_on": how.disturbed == "replace",
        "step": fixed.get("step", "auto"),
        "let_finish": how.let_finish,
        "sample_s": SAMPLED_S if isinstance(request, TrialRequest) and request.host_profile else None,
        "set": {**others, "of_batch_size": fixed.get("batch_size")} if others else {},
    }


class ProgramTemplate:
    """A program that waits before it builds anything, and is forked; one fork lives at a time."""

    def __init__(self, request: Started, here: Path | None, *, compiler: bool) -> None:
        """Start it. Raises UsageError, as FreshProgram."""
        procedure = request.procedure
        self._program = FreshProgram(TurnsRequest(request.case, procedure, 0), here, silent=True, compiler=compiler)
        self.folder, self.here = self._program.folder, self._program.here
        self._in_place, self._limit_s = procedure.in_place, procedure.timeout_s
        self._line: socket.socket | None = None
        self._heard = b""
        self.is_idle = False  # it waits, and has no fork that lives

    def wait(self) -> None:
        """Wait until it waits. One that ends before, or cannot be forked, is never idle."""
        by_s = system_clock() + self._limit_s
        while not self.is_idle and self._program.poll() is None and system_clock() < by_s:
            said = self._hear(_LOOK_S)
            if said is not None and said["word"] == "waits":
                if said["obstacle"] is not None:
                    return
                self.is_idle = True
                if not self._in_place:
                    shutil.copytree(self.folder, self._program.place / "kept", symlinks=True)

    def fork(self, place: Path, shift_bytes: int) -> int | None:
        """Have it forked, and its folder as it was; return the process, which is heard at `place`. None: it is gone."""
        if not self._in_place:
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.copytree(self._program.place / "kept", self.folder, symlinks=True)
        self.is_idle = False
        self._say({"word": "fork", "place": str(place), "shift_bytes": shift_bytes})
        said = self._hear(self._limit_s)
        return said["pid"] if said is not None else None

    def ended(self, wait_s: float = 0.0) -> int | None:
        """Return how its fork has ended; None while that lives."""
        said = self._hear(wait_s)
        if said is None:
            return -signal.SIGKILL if self._program.poll() is not None else None
        self.is_idle = True
        return int(said["code"])

    def close(self) -> None:
        """End it, and what was forked from it."""
        self._end()
        if self._line is not None:
            self._line.close()
        self._program.close()

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._program.pid, signal.SIGKILL)
        self._program.wait()

    def _say(self, word: Mapping[str, Scalar]) -> None:
        if self._line is not None:
            with contextlib.suppress(OSError):  # it is gone
                self._line.sendall(json.dumps(word).encode() + b"\n")

    def _hear(self, wait_s: float) -> Mapping[str, Any] | None:
        """Return the next thing it says, within that time."""
        by_s = system_clock() + wait_s
        while b"\n" not in self._heard:
            ear = self._line or self._program.listener
            try:
                if not select.select([ear], [], [], max(0.0, by_s - system_clock()))[0]:
                    return None
                if self._line is None:
                    self._line = self._program.listener.accept()[0]
                    continue
                data = self._line.recv(_CHUNK_BYTES)
            except (OSError, ValueError):  # it was killed, or closed while a trial is heard
                data = b""
            if not data:
                self._end()
                return None
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        said: Mapping[str, Any] = json.loads(line)
        return said


class ForkedProgram(_Listening):
    """A fork of a program that waits (ProgramProcess)."""

    def __init__(self, template: ProgramTemplate, shift_bytes: int) -> None:
        """Have it forked. Raises ProcessLookupError where it has ended."""
        super().__init__()
        self._template = template
        self.folder, self.here = template.folder, template.here
        self._code: int | None = None
        for name in STREAMS:
            os.mkfifo(self.place / name)
        readers = [os.open(self.place / name, os.O_RDONLY | os.O_NONBLOCK) for name in STREAMS]
        self.streams: Mapping[str, BinaryIO] = {
            name: os.fdopen(reader, "rb", buffering=0) for name, reader in zip(STREAMS, readers, strict=True)
        }
        pid = template.fork(self.place, shift_bytes)
        if pid is None:
            for stream in self.streams.values():
                stream.close()
            self.close()
            raise ProcessLookupError
        self.pid = pid

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        if self._code is None:
            self._code = self._template.ended()
        return self._code

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        while self._code is None:
            self._code = self._template.ended(_LOOK_S)
        return self._code


def key_of(request: Started) -> Key:
    """Return the words of a program, and what else is set."""
    case = request.case
    model, configuration = case.workload.model, case.configuration
    return tuple(words_of(model, configuration)), json.dumps(others_of(model, configuration), sort_keys=True)

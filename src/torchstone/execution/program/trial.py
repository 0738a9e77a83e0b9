"""A trial that is somebody's own program: started as it was typed, heard through its hooks, ended after its window."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.host_profile import HostProfile
from torchstone.core.schema.message import (
    Ended,
    Entered,
    Event,
    Live,
    Measured,
    Progress,
    Ready,
    RehearseRequest,
    Request,
    TrialRequest,
    TurnEnded,
    TurnsRequest,
)
from torchstone.core.schema.metric import DATA, PHASES
from torchstone.core.schema.trial import Measurement, Outcome, Stage, Status
from torchstone.core.units import plain
from torchstone.execution.program.steps import Marks, Sampled, Step, steps_of
from torchstone.execution.program.workspace import mirrored
from torchstone.execution.timing.clock import resolution_s, system_clock
from torchstone.execution.timing.segments import steady
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Launcher, LiveTrial

SCHEME = "program"
WINDOW = "program"
_HOOKS = Path(__file__).resolve().parent / "hooks"
_KEPT_BYTES = 64 * 1024  # of what it writes to stdout, and to stderr
_CHUNK_BYTES = 1 << 16
_MOST_LINE_BYTES = 1 << 28
_GRACE_S = 5.0  # to clean up after its window
_LOOK_S = 0.1
_FEWEST = 3  # steady steps that make a window
_WARMUP, _WARMUP_S = 3, 0.5
_SAMPLED_S = 1.5
# What heap=fixed is in somebody's own program: glibc keeps what it was given.
_FIXED_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}
_NO_MEMORY = re.compile(r"OutOfMemoryError|out of memory|can't allocate memory|MemoryError", re.IGNORECASE)
_PLACE = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')


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


class ProgramTrial:
    """A LiveTrial (machine_protocols.py). A thread hears the program, and says what it heard as events of a trial."""

    facts = Facts()

    def __init__(self, request: TrialRequest | RehearseRequest | TurnsRequest, here: Path | None = None) -> None:
        """Start the program. `here`: what its folder looks like; None: where the controller works.

        Raises UsageError where its folder cannot be mirrored or the command is not there.
        """
        self._request = request
        self._samples = isinstance(request, TrialRequest) and request.host_profile
        self._place = Path(tempfile.mkdtemp(prefix="torchstone-"))
        self._is_revision = here is not None
        words, here = words_of(request.case.workload.model, request.case.configuration), here or Path.cwd()
        self._here, self._folder = here, here
        if os.sep in words[0] and not (here / words[0]).exists() and Path(words[0]).exists():
            words[0] = str(Path.cwd() / words[0])  # of an environment beside the code, which has no mirror
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if not request.procedure.in_place:
                self._folder = mirrored(here, self._place / "work")
            self._listener.bind(str(self._place / "hooks"))
            self._listener.listen(8)
            self._process = subprocess.Popen(
                words,
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except BaseException as fault:
            self._listener.close()
            shutil.rmtree(self._place, ignore_errors=True)
            if isinstance(fault, OSError):
                raise UsageError(f"{words[0]}: {fault.strerror}") from None
            raise
        self.pid = self._process.pid
        self._written = {"stdout": b"", "stderr": b""}
        self._marks: Marks | None = None
        self._sampled: Sampled | None = None
        self._hooks: Any = None  # the connection to hooks that take turns
        self._unsaid = b""  # words before that
        self._unfit: str | None = None
        self._heard = False
        self._ours, self._theirs = socket.socketpair()
        self._rest = b""
        self._status: str | None = None
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _environment(self) -> dict[str, str]:
        how, case = self._request.procedure, self._request.case
        others = others_of(case.workload.model, case.configuration)
        base = {**os.environ, **(_FIXED_HEAP if others.pop("heap", None) == "fixed" else {})}
        if "threads" in others:
            base["OMP_NUM_THREADS"] = str(others["threads"])
        plan = {
            "rehearse": isinstance(self._request, RehearseRequest),
            "turns": os.getpid() if isinstance(self._request, TurnsRequest) else None,
            "warmup": _WARMUP if how.warmup is None else how.warmup,
            "warmup_s": min(_WARMUP_S, how.warmup_budget_s),
            "budget_s": how.budget_s,
            "min_steps": how.min_steps,
            "iterations": how.iterations,
            "step": case.workload.fixed.get("step", "auto"),
            "let_finish": how.let_finish,
            "sample_s": _SAMPLED_S if self._samples else None,
            "set": {**others, "of_batch_size": case.workload.fixed.get("batch_size")} if others else {},
        }
        sources = [self._folder, self._folder / "src"] if self._is_revision else []  # before what is installed
        own = [str(path) for path in sources if path.is_dir()]
        paths = [str(_HOOKS), *own, *filter(None, [base.get("PYTHONPATH")])]
        return {
            **base,
            "PYTHONPATH": os.pathsep.join(paths),
            "TORCHSTONE_PROGRAM": str(self._place / "hooks"),
            "TORCHSTONE_PROGRAM_PLAN": json.dumps(plan),
            "PYTHONUNBUFFERED": "1",
        }

    # ── what a TrialDrive asks ──────────────────────────────────────────────────────────────────────────────

    def fileno(self) -> int:
        """Return our end of the line."""
        return self._ours.fileno()

    def events(self) -> Sequence[Event] | None:
        """Return the events of one read; None at the end."""
        data = self._ours.recv(_CHUNK_BYTES)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [msgspec.json.decode(line, type=Event) for line in lines if line]

    def ask_where(self) -> None:
        """Somebody else's program is not asked where it is: it has its own handlers of signals."""

    def kill(self) -> None:
        """End the program, and all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def ending(self) -> str | None:
        """Wait for the end; return what was wrong with it, or None."""
        self.kill()
        self._thread.join()
        self._ours.close()
        self._listener.close()
        shutil.rmtree(self._place, ignore_errors=True)
        return self._status

    # ── what the thread does ────────────────────────────────────────────────────────────────────────────────

    def _hear(self) -> None:
        connections: dict[Any, bytes] = {}
        try:
            self._listen(connections)
        finally:
            for one in (*connections, self._process.stdout, self._process.stderr, self._theirs):
                one.close()

    def _say(self, event: Event) -> None:
        with contextlib.suppress(OSError):  # nobody waits for it any more
            self._theirs.sendall(msgspec.json.encode(event) + b"\n")

    def _listen(self, lines: dict[Any, bytes]) -> None:
        """Hear hooks and streams until the program has ended, or its time to clean up is over."""
        self._say(Live())
        self._say(Entered("starting", system_clock()))
        ends_s: float | None = None
        with selectors.DefaultSelector() as ears:
            ears.register(self._listener, selectors.EVENT_READ, "listener")
            for name in self._written:
                stream = getattr(self._process, name)
                os.set_blocking(stream.fileno(), False)
                ears.register(stream, selectors.EVENT_READ, name)
            if isinstance(self._request, TurnsRequest):
                ears.register(self._theirs, selectors.EVENT_READ, "words")
            while True:
                ended = self._process.poll() is not None
                ready = ears.select(0.0 if ended else _LOOK_S)
                for key, _ in ready:
                    self._take(ears, key, lines)
                all_here = self._marks is not None and (self._sampled is not None or not self._samples)
                if all_here and ends_s is None and not self._request.procedure.let_finish:
                    ends_s = system_clock() + _GRACE_S
                if ended and not ready:
                    break
                if ends_s is not None and system_clock() > ends_s:
                    self.kill()
                    ends_s = None
        self._conclude()

    def _take(self, ears: selectors.BaseSelector, key: selectors.SelectorKey, lines: dict[Any, bytes]) -> None:
        if key.data == "listener":
            connection, _ = self._listener.accept()
            lines[connection] = b""
            ears.register(connection, selectors.EVENT_READ, "hooks")
            return
        try:
            data = os.read(key.fd, _CHUNK_BYTES)
        except (BlockingIOError, ConnectionResetError):
            data = b""
        if not data:
            ears.unregister(key.fileobj)
            return
        if key.data == "words":
            self._tell(data)
            return
        if key.data != "hooks":
            self._written[key.data] = (self._written[key.data] + data)[-_KEPT_BYTES:]
            return
        *whole, lines[key.fileobj] = (lines[key.fileobj] + data).split(b"\n")
        if len(lines[key.fileobj]) > _MOST_LINE_BYTES:
            ears.unregister(key.fileobj)
        for line in whole:
            self._word(msgspec.json.decode(line, type=dict[str, Any]), key.fileobj)

    def _tell(self, data: bytes) -> None:
        """Pass words on to the hooks, as soon as they wait for some."""
        self._unsaid += data
        if self._hooks is not None:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                self._hooks.sendall(self._unsaid)
            self._unsaid = b""

    def _word(self, said: Mapping[str, Any], hooks: Any) -> None:
        self._heard = True
        if said["word"] == "first":
            self._say(Entered("warm-up", said["at_s"]))
        elif said["word"] == "entered":
            self._say(Entered(said["stage"], said["at_s"], said["measures"]))
        elif said["word"] == "progress":
            step_s = said["elapsed_s"] / max(1, said["steps"])
            self._say(Progress("steady", said["steps"], said["elapsed_s"], step_s))
        elif said["word"] == "ready":
            self._hooks = hooks
            self._tell(b"")
            self._say(Ready(said["step_s"], said["queue"], said["cycle"]))
        elif said["word"] == "turn":
            self._say(TurnEnded(said["begin_s"], said["elapsed_s"], said["cpu_s"]))
        elif said["word"] == "profile":
            self._sampled = msgspec.convert(said, Sampled)
        elif said["word"] == "unfit":
            self._unfit = said["why"]
        elif said["word"] == "marks" and self._marks is None:
            self._marks = msgspec.convert(said, Marks)

    # ── what it comes to ────────────────────────────────────────────────────────────────────────────────────

    def _conclude(self) -> None:
        code = self._process.wait()
        marks, found = self._marks, list[Step]()
        if marks is not None:
            found = steps_of(marks, str(self._request.case.workload.fixed.get("step", "auto")))
        good = [step for step in found if step.steady]
        enough = isinstance(self._request, RehearseRequest) or len(good) >= _FEWEST
        if isinstance(self._request, TurnsRequest) and marks is not None:
            enough = marks.complete or bool(marks.turns)
        if marks is not None and enough and (marks.complete or not code):
            if self._sampled is not None:
                self._say(self._profile(self._sampled, marks))
            self._say(self._measured(marks, found, good))
            self._say(Ended(Outcome(Status.OK)))
            return
        if code < 0:
            self._status = f"killed by {signal.Signals(-code).name}"
            return
        self._say(Ended(self._failed(code, marks, found)))

    def _failed(self, code: int, marks: Marks | None, found: Sequence[Step]) -> Outcome:
        """Return why there is nothing that was measured."""
        if code:
            text = self._written["stderr"].decode(errors="replace")
            lines = [line for line in text.splitlines() if line.strip()]
            last = plain(lines[-1]) if lines else f"exited with code {code}"
            status = Status.OUT_OF_MEMORY if _NO_MEMORY.search(last) else Status.CRASHED
            begin = text.rfind("Traceback (most recent call last)")
            traceback = "\n".join(map(plain, text[begin:].splitlines()[:60])) if begin >= 0 else None
            places = list(_PLACE.finditer(traceback or ""))
            where = f" ({Path(places[-1]['file']).name}:{places[-1]['line']})" if places else ""
            return Outcome(status, f"{last}{where}", traceback)
        if self._unfit is not None:
            return Outcome(Status.UNSUPPORTED, self._unfit)
        if not self._heard:
            return Outcome(
                Status.CRASHED,
                "it ended without a step that the hooks in torch saw: no optimizer stepped, and no module computed "
                "without gradients. Is it Python with torch, started without -I, -E and -S?",
            )
        steps = marks.steps if marks is not None else 0
        return Outcome(
            Status.CRASHED,
            f"it ended after {steps} step{'s' * (steps != 1)}, too few for a window: let it run longer",
        )

    def _measured(self, marks: Marks, found: Sequence[Step], good: Sequence[Step]) -> Measured:
        seen, sampled = measured(marks, found, good), self._sampled
        if sampled is not None and sampled.batches and sampled.loading_s > 0.0:
            seen.facts.loading_s = sampled.loading_s / sampled.batches
            seen.facts.loading_busy = min(1.0, sampled.loading_cpu_s / sampled.loading_s)
        return seen

    def _profile(self, found: Sampled, marks: Marks) -> HostProfile:
        """Return the samples as those of a model in torchstone's own loop are sent, with the user's own files."""
        same = {one: getattr(found, one) for one in HostProfile.__struct_fields__ if one in Sampled.__struct_fields__}
        sizes = marks.weights
        lines = [msgspec.structs.replace(line, file=self._own_file(line.file)) for line in found.lines]
        return HostProfile(
            **{**same, "lines": tuple(lines)},
            threads=marks.threads,
            tensors=len(sizes) or None,
            elements=float(median(sizes)) if sizes else None,
        )

    def _own_file(self, file: str) -> str:
        """Return the user's own file for one of the work folder, or of a folder beside it."""
        if file.startswith(f"{self._place}{os.sep}"):
            file = os.path.relpath(file, self._folder)
        return os.path.normpath(self._here / file)


def measured(marks: Marks, found: Sequence[Step], good: Sequence[Step]) -> Measured:
    """Return what marks come to: their steps, of which the good ones are the window."""
    times_s = [step.elapsed_s for step in good]
    facts = Facts(
        task="train" if marks.trains else "infer",
        device=marks.device,
        logical_cores=os.cpu_count(),
        threads_in_effect=marks.threads,
        torch=marks.torch,
        loader_workers=marks.workers,
        warmup_steps=len(found) - len(good),
        warmup_settled=True,
        clock_resolution_s=resolution_s(system_clock),
        steps=marks.steps,
        ranks=marks.world,
        fused_optimizer=marks.fused,
        seed=marks.seed,
    )
    if marks.loader is not None:
        size, _, facts.loader_pinned = marks.loader
        facts.loader_batch_size = size or None
    if marks.copies:
        facts.pageable_copies = marks.pageable / max(1, marks.steps)
    if found:
        facts.backward_passes = median(step.passes for step in found)
    if not good:
        return Measured((), facts)
    measurements = [
        Measurement("step_time_s", Stage.WARMUP, tuple(step.elapsed_s for step in found if not step.steady)),
        steady(WINDOW, "step_time_s", times_s),
        steady(WINDOW, "window_time_s", [sum(times_s)]),
        *(steady(WINDOW, metric, [float(held)]) for metric, held in marks.memory.items()),
    ]
    known = [step.items for step in good if step.items is not None]
    if len(known) == len(good):
        measurements.append(steady(WINDOW, "items", known))
        facts.items_per_step = median(known)
    if marks.losses:
        measurements.append(steady(WINDOW, "fingerprint", marks.losses))
    if marks.turns:
        measurements.append(steady(WINDOW, "turn_begin_s", [begin_s for begin_s, _ in marks.turns]))
        measurements.append(steady(WINDOW, "turn_time_s", [elapsed_s for _, elapsed_s in marks.turns]))
    phases = {phase for step in good for phase in step.phases_s}
    for phase in sorted(phases, key=PHASES.index):
        spent_s = [step.phases_s.get(phase, 0.0) for step in good]
        measurements.append(steady(WINDOW, "phase_time_s", spent_s, phase))
        if phase == DATA:
            measurements.append(steady(WINDOW, "data_wait_s", spent_s))
    return Measured(tuple(measurements), facts, {WINDOW: (good[0].begin_s, good[-1].end_s)})


class ProgramLauncher(Launcher):
    """Starts the command of a trial's workload, and a new interpreter of torchstone's own for every other request."""

    describes = "the command itself for every trial (torchstone run -- COMMAND)"

    def __init__(self) -> None:
        self._own: Launcher = copy.copy(registry.load("launchers", "spawn"))
        self._folder: Path | None = None

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Note the folder, and the environment for the other requests."""
        self._folder = folder
        self._own.open((), heap, folder, pin_threads=pin_threads)

    def ready(self) -> None:
        """Nothing to wait for."""

    def start(self, request: Request) -> LiveTrial:
        """Start one request."""
        if isinstance(request, TrialRequest | RehearseRequest | TurnsRequest):
            return ProgramTrial(request, self._folder)
        return self._own.start(request)

    def close(self) -> None:
        """Nothing to end."""

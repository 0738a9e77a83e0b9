"""A trial that is somebody's own program: started as it was typed, heard through its hooks, ended after its window."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import selectors
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from torchstone.core.schema.facts import Facts
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
from torchstone.core.schema.trial import HostProfile, Measurement, Outcome, Stage, Status
from torchstone.core.units import plain
from torchstone.execution.program.process import (
    STREAMS,
    ForkedProgram,
    FreshProgram,
    Key,
    ProgramProcess,
    ProgramTemplate,
    Started,
    key_of,
    words_of,
)
from torchstone.execution.program.steps import Marks, Sampled, Step, steps_of
from torchstone.execution.timing.clock import resolution_s, system_clock
from torchstone.execution.timing.segments import steady
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Launcher, LiveTrial

WINDOW = "program"
_KEPT_BYTES = 64 * 1024  # of what it writes to stdout, and to stderr
_CHUNK_BYTES = 1 << 16
_MOST_LINE_BYTES = 1 << 28
_GRACE_S = 5.0  # to clean up after its window
_LOOK_S = 0.1
_FEWEST = 3  # steady steps that make a window of a program that ended by itself
_NO_MEMORY = re.compile(r"OutOfMemoryError|out of memory|can't allocate memory|MemoryError", re.IGNORECASE)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[A-Za-z]\w*)")
_PLACE = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')


class ProgramTrial:
    """A LiveTrial (machine_protocols.py). A thread hears the program, and says what it heard as events of a trial."""

    facts = Facts()

    def __init__(
        self, request: Started, program: ProgramProcess, forkable: Callable[[bool], None] = lambda _: None
    ) -> None:
        """Hear the program. `forkable`: is called where it can be forked before it builds, with Marks.compiler."""
        self._request, self._program, self._forkable = request, program, forkable
        self._can_fork = False
        self._samples = isinstance(request, TrialRequest) and request.host_profile
        self.pid = program.pid
        self._written = dict.fromkeys(STREAMS, b"")
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
        self._program.close()
        return self._status

    # ── what the thread does ────────────────────────────────────────────────────────────────────────────────

    def _hear(self) -> None:
        connections: dict[Any, bytes] = {}
        try:
            self._listen(connections)
        finally:
            for one in (*connections, *self._program.streams.values(), self._theirs):
                one.close()

    def _say(self, event: Event) -> None:
        with contextlib.suppress(OSError):  # nobody waits for it any more
            self._theirs.sendall(msgspec.json.encode(event) + b"\n")

    def _listen(self, lines: dict[Any, bytes]) -> None:
        """Hear hooks and streams until the program has ended, or its time to clean up is over."""
        self._say(Live())
        self._say(Entered("starting", system_clock()))
        ends_s: float | None = None
        with selectors.DefaultSelector() as ears, contextlib.ExitStack() as until_then:
            with contextlib.suppress(AttributeError, OSError):  # another system, or it has ended
                ending = os.pidfd_open(self.pid)
                until_then.callback(os.close, ending)
                ears.register(ending, selectors.EVENT_READ, "end")
            ears.register(self._program.listener, selectors.EVENT_READ, "listener")
            for name, stream in self._program.streams.items():
                os.set_blocking(stream.fileno(), False)
                ears.register(stream, selectors.EVENT_READ, name)
            if isinstance(self._request, TurnsRequest):
                ears.register(self._theirs, selectors.EVENT_READ, "words")
            while True:
                ended = self._program.poll() is not None
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
            connection, _ = self._program.listener.accept()
            lines[connection] = b""
            ears.register(connection, selectors.EVENT_READ, "hooks")
            return
        if key.data == "end":
            ears.unregister(key.fileobj)
            self._program.wait()
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
        elif said["word"] == "waits":
            self._hooks = hooks
            if isinstance(self._request, RehearseRequest):
                self._can_fork = said["obstacle"] is None
                self._unsaid = b'{"word":"begin"}\n'
            self._tell(b"")
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
            if self._can_fork:
                self._forkable(self._marks.compiler)

    # ── what it comes to ────────────────────────────────────────────────────────────────────────────────────

    def _conclude(self) -> None:
        code = self._program.wait()
        marks, found = self._marks, list[Step]()
        if marks is not None:
            found = steps_of(marks, str(self._request.case.workload.fixed.get("step", "auto")))
        good = [step for step in found if step.steady]
        fewest = 1 if marks is not None and marks.complete else _FEWEST  # a window of slow steps has two
        enough = isinstance(self._request, RehearseRequest) or len(good) >= fewest
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
            return Outcome(status, f"{last}{where}{self._other_python(last)}", traceback)
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

    def _other_python(self, last: str) -> str:
        """Return which Python lacks a module that torchstone's own has: that on PATH is often another one."""
        if (missing := _MISSING.match(last)) is None or find_spec(missing["name"]) is None:
            return ""
        path = shutil.which(words_of(self._request.case.workload.model, self._request.case.configuration)[0])
        if path is None or Path(path).parent == Path(sys.executable).parent:
            return ""
        return f"; {path} is not torchstone's own Python, which has it: {sys.executable}"

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
        program = self._program
        if file.startswith(f"{program.place}{os.sep}"):
            file = os.path.relpath(file, program.folder)
        return os.path.normpath(program.here / file)


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
    """Starts the command of a trial's workload, and a new interpreter of torchstone's own for every other request.

    Programs that take turns are forked where that is known to be possible, each from one that waits before it builds
    anything. These are started anew with every `open`.
    """

    describes = "the command itself for every trial (torchstone run -- COMMAND)"

    def __init__(self) -> None:
        self._own: Launcher = copy.copy(registry.load("launchers", "spawn"))
        self._folder: Path | None = None
        self._forkable: dict[Key, Callable[[], ProgramTemplate]] = {}
        self._templates: list[tuple[Key, ProgramTemplate]] = []

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Note the folder, and the environment for the other requests; start what trials are forked from."""
        self.close()
        self._folder = folder
        self._own.open((), heap, folder, pin_threads=pin_threads)
        self._templates = [(key, make()) for key, make in self._forkable.items()]

    def ready(self) -> None:
        """Wait until they wait."""
        for _, template in self._templates:
            template.wait()

    def start(self, request: Request) -> LiveTrial:
        """Start one request."""
        if isinstance(request, TurnsRequest) and (template := self._template(request)) is not None:
            with contextlib.suppress(ProcessLookupError):
                return ProgramTrial(request, ForkedProgram(template, request.shift_bytes))
        if isinstance(request, TrialRequest | RehearseRequest | TurnsRequest):
            return ProgramTrial(request, FreshProgram(request, self._folder), partial(self._note, request))
        return self._own.start(request)

    def close(self) -> None:
        """End what trials are forked from."""
        for _, template in self._templates:
            template.close()
        self._templates = []

    def _note(self, request: Started, compiler: bool) -> None:
        self._forkable[key_of(request)] = partial(ProgramTemplate, request, self._folder, compiler=compiler)

    def _template(self, request: TurnsRequest) -> ProgramTemplate | None:
        """Return one that may be forked for this; both sides may have the same command, and then one each."""
        key = key_of(request)
        idle = next((one for known, one in self._templates if known == key and one.is_idle), None)
        if idle is None and (make := self._forkable.get(key)) is not None:
            idle = make()
            self._templates.append((key, idle))
            idle.wait()
        return idle if idle is not None and idle.is_idle else None

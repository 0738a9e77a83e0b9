"""A trial's Outcome: from what it raised, from its signal or exit code, and from the OOM killer."""

from __future__ import annotations

import errno
import re
import signal
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.messages import Values
from torchstone.core.schema.message import Ended
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.core.units import quantity
from torchstone.execution.host_memory import oom_kills

# What the allocators of devices and hosts say; torch raises plain RuntimeErrors for some of them.
_NO_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_cpu",
    "not enough memory",
    "bad_alloc",
    "_status_alloc_failed",
    "fft_alloc_failed",
    "rocblas_status_memory_error",
    "out_of_device_memory",
    "out_of_host_memory",
)
# What libraries say that could not get their workspace, and on other occasions too: it is memory where none is left.
_PERHAPS_NO_MEMORY = re.compile(
    r"unable to find an engine|unable to find a valid cudnn algorithm|no suitable (cudnn )?(algorithm|engine)"
    r"|_status_(not_initialized|internal_error|insufficient_resources)|fft_internal_error|miopenstatus\w*error"
    r"|error_out_of_resources",
    re.IGNORECASE,
)
_FULL = 0.02  # of a device's memory free: less than a context and a workspace take
# CUDA and HIP (a launch that fails so leaves the context unusable), NVML and the kernel's driver, SYCL, and our own.
_LOST = re.compile(
    r"device[ _]lost|unspecified launch failure|device.{0,60}no longer available|gpu is lost|fallen off the bus|\bxid\b"
    r"|no (cuda|rocm)-capable device|uncorrectable ecc error",
    re.IGNORECASE,
)
_NO_THREAD = "can't start new thread"
_CAUGHT = re.compile(r"Caught \w+ in DataLoader worker process \d+\.")
_KILLED = "is killed by signal: Killed"
# What gloo, NCCL and torch's store say where the other end of a connection has gone.
_PEER_IS_GONE = re.compile(
    r"connection (was )?(closed|reset|refused)|broken pipe|remote process exited|remoteerror|failed to recv"
    r"|socket timeout|peer closed|no route to host|DistNetworkError|DistStoreError",
    re.IGNORECASE,
)
_MOST = 300  # characters of an error's first line
_GONE = re.compile(r"DataLoader worker \(pid")  # torch wraps the error that has the signal or the exit code in another
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>.+)')
_OURS = Path(__file__).resolve().parents[2]
_INSTALLED = ("site-packages", "dist-packages")
_INTERPRETER = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})


def ended_by(error: BaseException) -> Ended:
    """Return the last event for a trial that raised."""
    if isinstance(error, Unsupported):
        return Ended(Outcome(Status.UNSUPPORTED, str(error)))
    if isinstance(error, KeyboardInterrupt):
        return Ended(Outcome(Status.INTERRUPTED, "interrupted"))
    if isinstance(error, UsageError) and not _is_out_of_memory(error.__cause__):
        said = _from_loader(str(error))
        first, _, rest = said.partition("\n")
        where = error_place(_frames(error.__cause__ or error))
        return Ended(Outcome(Status.CRASHED, first + where, rest or None), mistake=said)
    if isinstance(error, UsageError) and error.__cause__ is not None:
        error = error.__cause__  # a lack of memory is nobody's mistake, wherever it shows
    said, lines, frames = _described(error)
    reason = _reason(error, said)
    if _is_out_of_memory(error) or _is_out_of_memory(error.__cause__):
        if _PERHAPS_NO_MEMORY.search(said) and (full := _full_device()) is not None:
            said = f"{said} ({full})"
        return Ended(Outcome(Status.OUT_OF_MEMORY, said + error_place(frames), lines, reason))
    lost = "the device was lost: " if reason == Reason.DEVICE_LOST else ""
    return Ended(Outcome(Status.CRASHED, lost + said + error_place(frames), lines, reason))


def _reason(error: BaseException, said: str) -> Reason | None:
    """Return what drivers, torch and its libraries mean by an error: here alone their words are read."""
    if isinstance(error, RuntimeError) and _LOST.search(str(error)):
        return Reason.DEVICE_LOST
    if _CAUGHT.match(str(error).strip()):
        return Reason.IN_LOADER
    if _GONE.search(said):
        return Reason.LOADER_KILLED if _KILLED in said else Reason.IN_LOADER
    return Reason.PEER_GONE if _PEER_IS_GONE.search(said) else None


@cache
def is_own(file: str) -> bool:
    """Say whether a file of code is the user's: not torchstone's, the interpreter's or an installed package's.

    What was made of a string has no file.
    """
    path = Path(file)
    if file.startswith("<") or any(part in _INSTALLED for part in path.parts):
        return False
    return not any(path.is_relative_to(there) for there in _INTERPRETER) and not path.resolve().is_relative_to(_OURS)


def frames_in(text: str) -> list[tuple[str, int, str]]:
    """Return (file, line, function) of each frame that a printed traceback names, in its order."""
    return [(m["file"], int(m["line"]), m["function"]) for m in map(_FRAME.match, text.splitlines()) if m]


def error_place(frames: Iterable[tuple[str, int, str]]) -> str:
    """Return " at FILE:LINE in FUNCTION" for the innermost (last) frame that is the user's own; empty if none is."""
    own = [frame for frame in frames if is_own(frame[0])]
    if not own:
        return ""
    file, line, function = own[-1]
    return f" at {Path(file).name}:{line} in {function}"


def own_lines(error: BaseException) -> str:
    """Return the traceback without the frames of torchstone and of installed libraries, unless nothing else is left.

    What an error's notes say stands before its own line, each note a line.
    """
    frames = traceback.extract_tb(error.__traceback__)
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    shown = [frame for frame in frames if is_own(frame.filename)] or ([] if notes else frames[-3:])
    told = traceback.TracebackException.from_exception(error)
    told.__notes__ = None
    lines = [*traceback.format_list(shown), *(f"  {note}\n" for note in notes), *told.format_exception_only()]
    return "".join(lines).strip("\n")


def _described(error: BaseException) -> tuple[str, str, list[tuple[str, int, str]]]:
    """Return an error as one line, its traceback, and its frames; of one raised in a loader's process, those there."""
    text = str(error).strip()
    if _CAUGHT.match(text):
        frames = frames_in(text)
        last = [line for line in text.splitlines()[1:] if line and not line.startswith((" ", "Original", "Traceback"))]
        return f"{_shortened((last or [text])[0])}, in a DataLoader worker,", text, frames
    if _GONE.match(text) and error.__cause__ is not None and _GONE.match(str(error.__cause__)):
        text = str(error.__cause__).strip()
    elif _GONE.match(text):
        text = _end_of_loader(error) or text
    first = _shortened(text.splitlines()[0]) if text else ""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        first = f"exit code {code}" + (f": {first}" if code == 1 and not isinstance(error.code, int) else "")
    name = type(error).__name__
    return f"{name}: {first}" if first else name, own_lines(error), _frames(error)


def _shortened(line: str) -> str:
    """Return a line of at most 300 characters, cut at the end of a sentence: torch tells of memory in five of them."""
    if len(line) <= _MOST:
        return line
    end = line.rfind(". ", 0, _MOST)
    return line[:end] if end > 0 else line[:_MOST] + "…"


def _end_of_loader(error: BaseException) -> str | None:
    """Return how a loader's process ended, where torch says only that it has: it sees that before it gets the signal.

    In torch's words; None where its frame does not have the processes that have failed.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for worker in frame.f_locals.get("failed_workers", ()):
            code = getattr(worker, "exitcode", None)
            if isinstance(code, int) and code:
                how = f"is killed by signal: {signal.strsignal(-code)}." if code < 0 else f"exited with code {code}"
                return f"DataLoader worker (pid {worker.pid}) {how}"
    return None


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    return [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)]


def _from_loader(text: str) -> str:
    """Return what was said in a loader's process: torch keeps the exception's type, and wraps its text."""
    return text.rpartition("UsageError: ")[2].strip() if text.startswith("Caught UsageError") else text


def _is_out_of_memory(error: BaseException | None) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if not isinstance(error, RuntimeError | OSError):
        return False
    said = str(error).lower()
    if any(phrase in said for phrase in _NO_MEMORY) or (_NO_THREAD in said and _memory_is_limited()):
        return True
    return _PERHAPS_NO_MEMORY.search(said) is not None and _full_device() is not None


def _full_device() -> str | None:
    """Return how little memory the device in use has left, or None: it has some, or does not tell."""
    torch = sys.modules.get("torch")
    for module in (getattr(torch, "cuda", None), getattr(torch, "xpu", None)):
        if module is None or not module.is_initialized() or not hasattr(module, "mem_get_info"):
            continue
        try:
            free, total = module.mem_get_info()  # of the current device, which is the trial's
        except RuntimeError:  # after some errors a device answers nothing any more
            continue
        if free < _FULL * total:
            left, whole = quantity(free, "bytes"), quantity(total, "bytes")
            return f"{left} of the device's {whole} were free"
    return None


def _memory_is_limited() -> bool:
    """Say whether a thread's stack may have been refused for memory: else it is the number of threads that ended."""
    import resource

    names = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(name)[0] != resource.RLIM_INFINITY for name in names)


# ── what the controller adds: signals, exit codes and the OOM killer ──────────────────────────────────────────

ENDED = "ended"  # of a rank whose status is gone
SILENT = "no answer"  # what stands for the stack of a rank that does not write one
_SIGKILL, _LEFT = "killed by SIGKILL", "exited with code 0"
_COLLECTIVES = "/torch/distributed/"  # in a file of torch: waits for other ranks
RANK = re.compile(r"rank \d+")  # before the stack of each rank that was asked where it is
_KERNEL = "by the kernel's out-of-memory killer"


class TrialEnd:
    """Created before a trial starts, to know the number of OOM kills by then."""

    def __init__(self) -> None:
        self._kills = oom_kills()
        self.stage = ""
        self.stack: list[str] = []

    def timed_out(self, timeout_s: float) -> Outcome:
        """Return the Outcome of a trial that had to be ended for its time."""
        said, values = f"timed out after {timeout_s:g} s{self._where()}", Values(timeout_s=timeout_s, during=self.stage)
        return Outcome(Status.TIMED_OUT, said, self._traceback(), Reason.TIMEOUT, values)

    def hung(self, silent_s: float) -> Outcome:
        """Return the Outcome of ranks that had to be ended since none did a step for so long."""
        said, values = f"no step for {silent_s:.0f} s{self._where()}", Values(silent_s=silent_s, during=self.stage)
        return Outcome(Status.TIMED_OUT, said, self._traceback(), Reason.HUNG, values)

    def died(self, wrong: str | None) -> Outcome:
        """Return the Outcome of a process that ended without its last event. `wrong`: its signal or exit code."""
        if wrong != _SIGKILL:
            said = f"{wrong or _LEFT}{self._where()}" + (", before it finished" if wrong in (None, _LEFT) else "")
            return Outcome(Status.CRASHED, said, self._traceback())
        struck = self._struck()
        if struck:
            return Outcome(Status.OUT_OF_MEMORY, f"killed {_KERNEL}{self._where()}")
        who = "not " if struck is False else "by kill -9 from outside, or "
        return Outcome(Status.CRASHED, f"{_SIGKILL}{self._where()}, {who}{_KERNEL}")

    def refined(self, outcome: Outcome) -> Outcome:
        """Return the Outcome of a trial that said how it ended."""
        if outcome.status == Status.CRASHED and outcome.reason == Reason.LOADER_KILLED and self._struck():
            said = f"a DataLoader worker was killed {_KERNEL}"
            return msgspec.structs.replace(outcome, status=Status.OUT_OF_MEMORY, message=said)
        wrong = outcome.values.get("wrong", ENDED) if outcome.reason == Reason.RANK_DIED else ENDED
        if wrong != ENDED:
            died, rank = self.died(str(wrong)), outcome.values["rank"]
            told = {"rank": rank}  # without `wrong`: of another node, this one here has nothing to add
            return msgspec.structs.replace(
                died, message=f"rank {rank}: {died.message}", reason=outcome.reason, values=told
            )
        return outcome

    def _struck(self) -> bool | None:
        """Say whether the OOM killer has killed a process since; None where the kernel does not count."""
        now = oom_kills()
        if not now or len(now) != len(self._kills):
            return None
        return any(after > before for before, after in zip(self._kills, now, strict=True))

    def _where(self) -> str:
        during = f" during {self.stage}" if self.stage else ""
        if (rank := self._rank()) is not None:
            said = self._by_rank()[rank].strip()
            during += f" in {rank}" + (f": {said}" if said.startswith(SILENT) else "")
        return during + error_place(reversed(self._frames()))  # the interpreter writes its innermost frame first

    def _rank(self) -> str | None:
        """Return the rank that the others wait for, where ranks were asked.

        One that does not answer, else the only one whose stack has the user's own frames and ends in no collective.
        """
        parts = self._by_rank()
        silent = [rank for rank, part in parts.items() if part.lstrip().startswith(SILENT)]
        frames = {rank: frames_in(part) for rank, part in parts.items()}
        busy = [
            rank
            for rank, found in frames.items()
            if any(is_own(file) for file, *_ in found) and _COLLECTIVES not in found[0][0]
        ]
        at_fault = silent or busy
        return at_fault[0] if len(at_fault) == 1 else None

    def _by_rank(self) -> Mapping[str, str]:
        parts: dict[str, list[str]] = {}
        rank = None
        for line in self.stack:
            if RANK.fullmatch(line.strip()):
                rank = line.strip()
            elif rank is not None:
                parts.setdefault(rank, []).append(line)
        return {rank: "\n".join(lines) for rank, lines in parts.items()}

    def _traceback(self) -> str | None:
        shown = [frame for frame in self._frames() if is_own(frame[0])] or self._frames()[:3]
        lines = [f'  File "{file}", line {line}, in {function}' for file, line, function in reversed(shown)]
        return "\n".join(lines) or None

    def _frames(self) -> Sequence[tuple[str, int, str]]:
        """Return the frames of the thread it ended in; if none of these is the user's, those of all threads."""
        rank = self._rank()
        text = "\n".join(self.stack) if rank is None else self._by_rank()[rank]
        current = text.partition("Current thread")[2].partition("\n\n")[0]
        frames = frames_in(current)
        return frames if any(is_own(file) for file, _, _ in frames) else frames_in(text)

"""Samples of a program that runs already, from outside: py-spy reads its stacks, /proc what it has spent.

py-spy stops nothing (--nonblocking) and writes what it has seen when it is interrupted; the program is left as it was.
Names, files and numbers are those of somebody else's memory: bounded, checked, and shown as plain text only.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.units import plain
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource

RATE_HZ = 7  # a sample takes 1.4 to 2.2 ms of a core: 0.8 % of two that are busy, 0.2 % of eight
_GRACE_S = 15.0  # py-spy's, to begin and to write
_PERIOD_S = 0.5  # between readings of the device's gauges
_MOST_BYTES, _MOST_CODE_BYTES = 64 << 20, 4 << 20
_LONGEST, _DEEPEST, _CODE = 300, 500, 120
_PYTHON, _TORCH = re.compile(r"(^|/)(libpython|python)[\d.]*[^/]*$"), re.compile(r"^(?P<root>/.*/torch)/lib/libtorch")
_THREAD = re.compile(r'Process (?P<pid>\d+) Thread (?P<tid>0x[0-9A-Fa-f]+|\d+)(?: "(?P<name>.*)")?', re.DOTALL)
_CARDS = {"/dev/nvidia": "cuda", "/dev/kfd": "rocm"}
_FORBIDDEN = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)


class Frame(msgspec.Struct, frozen=True):
    """A call on a stack. Its file is as the program has it."""

    name: str
    file: str
    line: int


class Thread(msgspec.Struct, frozen=True):
    """The samples of one thread, in their order: stacks, the outermost call first."""

    pid: int
    tid: int
    stacks: tuple[tuple[Frame, ...], ...]


class Process(msgspec.Struct, frozen=True):
    """A process of the program. `torch_root`: the folder of its torch; None: it has none. `rank`: as torchrun says."""

    pid: int
    command: tuple[str, ...]
    torch_root: str | None = None
    rank: int | None = None


class Target(msgspec.Struct, frozen=True):
    """What is attached to: the first process with Python of those that were asked for, and where it computes."""

    process: Process
    device: DeviceInfo
    torch: str | None
    uid: int
    started: str


class Spent(msgspec.Struct, frozen=True):
    """What a process spent while it was looked at: CPU seconds of each thread, bytes that it read, a second.

    `queued_s`: how long each thread waited for a core; empty where the system does not tell.
    """

    threads_s: Mapping[int, float]
    read_bytes: float | None
    queued_s: Mapping[int, float] = {}


class Watched(msgspec.Struct, frozen=True):
    """What was seen in `elapsed_s`. `cost_s`: CPU time of py-spy. `others_cores`: kept busy by other processes."""

    elapsed_s: float
    threads: tuple[Thread, ...]
    spent: Mapping[int, Spent]
    processes: Mapping[int, Process]
    cost_s: float
    others_cores: float | None = None
    utilization: float | None = None
    ended: bool = False


# ── which process ───────────────────────────────────────────────────────────────────────────────────────────


def find_process(pid: int, proc: Path = Path("/proc")) -> Target:
    """Return what to attach to: the process, or, of a shell or a launcher without Python, the first that it started.

    Raises UsageError where there is no such process, no Python or no torch in it, MissingError where it may not be
    looked into.
    """
    if not (proc / "self/stat").exists():
        raise MissingError("attach reads /proc, which this system has not: use torchstone diagnose -- COMMAND")
    folder = proc / str(pid)
    if not _started(pid, proc):
        raise UsageError(f"there is no process {pid}: pgrep -af python lists those of Python")
    maps = {one: _mapped(one, proc) for one in (pid, *descendants(pid, proc))}
    with_python = [one for one, files in maps.items() if any(map(_PYTHON.search, files))]
    if not with_python:
        raise UsageError(f"process {pid} ({_name(_command(pid, proc))}) is no Python program")
    family = [process_of(one, files, proc) for one, files in maps.items()]
    if all(one.torch_root is None for one in family):
        raise UsageError(f"process {pid} ({_name(_command(pid, proc))}) has not imported torch: attach when it trains")
    first = next(one for one in family if one.pid == with_python[0])
    root = next(one.torch_root for one in family if one.torch_root is not None)
    cards = [file for files in maps.values() for file in files if file.startswith(tuple(_CARDS))]
    try:
        uid = folder.stat().st_uid
    except OSError:
        raise TorchstoneError(f"process {pid} has ended") from None
    return Target(first, _device(cards, proc), _version(root, pid, proc), uid, _started(first.pid, proc))


def descendants(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return the processes that a process started, and those that these started, nearest first."""
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and (fields := _stat(folder)):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = list[int](), [pid]
    while waiting:
        below = sorted(children.get(waiting.pop(0), ()))
        found += below
        waiting += below
    return found


def process_of(pid: int, files: Sequence[str], proc: Path) -> Process:
    """Return what is known of a process by the files that it has mapped."""
    roots = [found["root"] for file in files if (found := _TORCH.match(file))]
    return Process(pid, _command(pid, proc), roots[0] if roots else None, _rank(pid, proc) if roots else None)


def _mapped(pid: int, proc: Path) -> list[str]:
    """Return the files that a process has mapped. Raises MissingError where that may not be read."""
    try:
        lines = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except PermissionError:
        raise MissingError(forbidden(pid)) from None
    except OSError:  # it has ended meanwhile
        return []
    return list(dict.fromkeys(parts[5] for line in lines if len(parts := line.split(maxsplit=5)) == 6))


def forbidden(pid: int) -> str:
    """Return that a process may not be looked into, and what to type."""
    in_container = "in a container, start it with --cap-add SYS_PTRACE"
    if os.geteuid() == 0:
        return f"process {pid}: the kernel forbids root to look into it (ptrace): {in_container}"
    typed = f'sudo env "PATH=$PATH" torchstone attach {pid}'
    return f"process {pid}: the kernel forbids to look into it (ptrace): type {typed}; {in_container}"


def _command(pid: int, proc: Path) -> tuple[str, ...]:
    try:
        words = (proc / str(pid) / "cmdline").read_bytes()[: 1 << 16].split(b"\0")
    except OSError:
        return ()
    return tuple(plain(word.decode(errors="replace"))[:_LONGEST] for word in words[:50] if word)


def _name(command: Sequence[str]) -> str:
    return " ".join(command)[:80] or "without a command"


def _rank(pid: int, proc: Path) -> int | None:
    """Return the rank that torchrun gave a process: the one variable of its environment that is looked at."""
    with contextlib.suppress(OSError):
        words = (proc / str(pid) / "environ").read_bytes().split(b"\0")
        found = next((word[5:] for word in words if word.startswith(b"RANK=")), b"")
        return int(found) if found.isdigit() and len(found) < 8 else None
    return None


def _stat(folder: Path) -> list[str]:
    """Return the fields of `stat` from the third on: state, parent, …; none where the process has ended."""
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _started(pid: int, proc: Path) -> str:
    """Return when a process began, in the kernel's ticks; nothing where it has ended, waited for or not."""
    fields = _stat(proc / str(pid))
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _version(root: str | None, pid: int, proc: Path) -> str | None:
    """Return the version of a torch by the folder of its metadata."""
    beside = Path(f"{proc}/{pid}/root{root}").parent if root is not None else None
    with contextlib.suppress(OSError):
        found = sorted(beside.glob("torch-*.dist-info")) if beside is not None else []
        return found[0].name.removeprefix("torch-").removesuffix(".dist-info")[:40] if found else None
    return None


def _device(cards: Sequence[str], proc: Path) -> DeviceInfo:
    """Return the device by the files of drivers that are mapped; without any, the CPU."""
    if not cards:
        return DeviceInfo("cpu", "cpu", "", 0, "cpu")
    kind = next(kind for beginning, kind in _CARDS.items() if cards[0].startswith(beginning))
    numbers = sorted(int(found[1]) for card in cards if (found := re.fullmatch(r"/dev/nvidia(\d+)", card)))
    index = numbers[0] if numbers else 0
    told = dict[str, str]()
    for path in sorted((proc / "driver/nvidia/gpus").glob("*/information")):
        with contextlib.suppress(OSError):
            lines = (line.partition(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
            one = {name.strip(): value.strip() for name, _, value in lines}
            told = one if one.get("Device Minor") == str(index) else told
    name = plain(told.get("Model", kind))[:_LONGEST]
    return DeviceInfo(kind, "cuda", "NVIDIA" if kind == "cuda" else "AMD", index, name, bus_id=told.get("Bus Location"))


# ── looking at it ───────────────────────────────────────────────────────────────────────────────────────────


def py_spy() -> str:
    """Return where py-spy is. Raises MissingError where it is not installed."""
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    found = shutil.which("py-spy", path=places)
    if found is None:
        raise MissingError("attach needs py-spy: pip install 'torchstone[attach]'")
    return found


def watch(
    target: Target,
    for_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    program: str | None = None,
    proc: Path = Path("/proc"),
) -> Watched:
    """Look at a program for so long, or until it ends; `program`: py-spy.

    Raises MissingError where the kernel forbids it, TorchstoneError where nothing was seen.
    """
    pid, program = target.process.pid, program or py_spy()
    with tempfile.TemporaryDirectory(prefix="torchstone-") as folder:
        written = Path(folder) / "samples.json"
        options = f"--pid {pid} --rate {RATE_HZ} --format speedscope --idle --nonblocking --subprocesses"
        words = [program, "record", *options.split(), "--full-filenames", "--output", str(written)]
        gauges = _gauges(target, pid)
        family = {one: _counts(one, proc) for one in (pid, *descendants(pid, proc))}
        processes = {one: process_of(one, _mapped(one, proc), proc) for one in family}
        children_s, before, used, began_s = _children_s(), _cumulative(gauges), list[float](), clock()
        spying = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            while spying.poll() is None and (left_s := began_s + for_s - clock()) > 0.0:
                sleep(min(_PERIOD_S, left_s))
                used += [value for one in gauges if not one.cumulative and (value := one.read()) is not None]
            elapsed_s, after = clock() - began_s, _cumulative(gauges)
            spent = {one: _spent(counts, _counts(one, proc), elapsed_s) for one, counts in family.items()}
            # What is killed takes a while to go; py-spy then ends by itself, and well.
            ended = _started(pid, proc) != target.started or spying.poll() == 0
            if spying.poll() is None:
                spying.send_signal(signal.SIGINT)
            _, said = spying.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            raise TorchstoneError(f"py-spy did not end {_GRACE_S:g} s after it was asked to") from None
        finally:
            if spying.poll() is None:
                spying.kill()
                spying.communicate()
        threads = _read(written, said.decode(errors="replace"), pid, ended=ended)
    new = {thread.pid for thread in threads} - processes.keys()
    cost_s = _children_s() - children_s
    return Watched(
        elapsed_s,
        tuple(threads),
        {one: found for one, found in spent.items() if found is not None},
        processes | {one: process_of(one, _mapped(one, proc), proc) for one in new},
        cost_s,
        _others(before, after, elapsed_s, cost_s),
        min(1.0, sum(used) / len(used)) if used else None,
        ended,
    )


def _children_s() -> float:
    """Return the CPU time of children that have ended: of py-spy, between two readings."""
    held = resource.getrusage(resource.RUSAGE_CHILDREN)
    return held.ru_utime + held.ru_stime


def _gauges(target: Target, pid: int) -> list[Gauge]:
    wanted = {"host_busy_s", "process_cpu_s", "device_utilization"}
    found: list[Gauge] = []
    for name in registry.names("telemetry"):
        source: TelemetrySource = registry.load("telemetry", name)
        if name in ("host", "process") or target.device.kind != "cpu":
            found += [gauge for gauge in source.open(pid, target.device) if gauge.metric in wanted]
    return found


def _cumulative(gauges: Sequence[Gauge]) -> Mapping[str, float]:
    return {one.metric: value for one in gauges if one.cumulative and (value := one.read()) is not None}


def _others(before: Mapping[str, float], after: Mapping[str, float], elapsed_s: float, cost_s: float) -> float | None:
    """Return how many cores others kept busy; py-spy is none of them."""
    busy_s, own_s = (
        after[name] - before[name] if name in before and name in after else None
        for name in ("host_busy_s", "process_cpu_s")
    )
    if busy_s is None or own_s is None or elapsed_s <= 0.0:
        return None
    return max(0.0, busy_s - own_s - cost_s) / elapsed_s


def _counts(pid: int, proc: Path) -> Spent | None:
    """Return the CPU time of each thread by now, and the bytes that were read; None where the process has ended."""
    folder, tick_s = proc / str(pid), 1.0 / os.sysconf("SC_CLK_TCK")
    try:
        threads = [one for one in (folder / "task").iterdir() if one.name.isdigit()]
    except OSError:
        return None
    fields = {int(one.name): found for one in threads if (found := _stat(one))}
    read = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        read = float((folder / "io").read_text().split()[1])
    queued: dict[int, float] = {}
    for tid in fields:
        with contextlib.suppress(OSError, ValueError, IndexError):
            queued[tid] = int((folder / f"task/{tid}/schedstat").read_text().split()[1]) * 1e-9
    return Spent({tid: (int(found[11]) + int(found[12])) * tick_s for tid, found in fields.items()}, read, queued)


def _spent(before: Spent | None, after: Spent | None, elapsed_s: float) -> Spent | None:
    if before is None or after is None:
        return None
    threads = {tid: max(0.0, now_s - before.threads_s.get(tid, 0.0)) for tid, now_s in after.threads_s.items()}
    queued = {tid: max(0.0, now_s - before.queued_s.get(tid, 0.0)) for tid, now_s in after.queued_s.items()}
    known = before.read_bytes is not None and after.read_bytes is not None and elapsed_s > 0.0
    read = ((after.read_bytes or 0.0) - (before.read_bytes or 0.0)) / elapsed_s if known else None
    return Spent(threads, read, queued)


# ── what py-spy wrote ───────────────────────────────────────────────────────────────────────────────────────


class _Frame(msgspec.Struct):
    name: str = ""
    file: str | None = None
    line: int | None = None


class _Profile(msgspec.Struct):
    name: str
    samples: list[list[int]] = []


class _Shared(msgspec.Struct):
    frames: list[_Frame]


class _Speedscope(msgspec.Struct):
    profiles: list[_Profile]
    shared: _Shared


def _read(written: Path, said: str, pid: int, *, ended: bool) -> list[Thread]:
    if not written.exists():
        if _FORBIDDEN.search(said):
            raise MissingError(forbidden(pid))
        if ended or "process executable name" in said:
            raise TorchstoneError(f"process {pid} has ended meanwhile")
        first = next((line for line in said.splitlines() if line.startswith("Error")), "it wrote nothing")
        raise TorchstoneError(f"py-spy could not read process {pid}: {plain(first)[:_LONGEST]}")
    if written.stat().st_size > _MOST_BYTES:
        raise TorchstoneError(
            f"py-spy wrote more than {_MOST_BYTES >> 20} MiB of process {pid}: attach for less, --for 10s"
        )
    return threads_of(written.read_bytes())


def threads_of(data: bytes) -> list[Thread]:
    """Return the threads of a speedscope file, as py-spy writes it. Raises TorchstoneError where it is none."""
    try:
        found = msgspec.json.decode(data, type=_Speedscope)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise TorchstoneError(f"py-spy wrote what cannot be read: {plain(fault)[:_LONGEST]}") from None
    frames = [
        Frame(plain(one.name)[:_LONGEST], plain(one.file or "")[:_LONGEST], min(max(one.line or 0, 0), 1 << 31))
        for one in found.shared.frames
    ]
    return list(_threads(found.profiles, frames))


def _threads(profiles: Sequence[_Profile], frames: Sequence[Frame]) -> Iterator[Thread]:
    for profile in profiles:
        if (about := _THREAD.match(profile.name)) is not None:
            stacks = (
                tuple(frames[place] for place in stack[:_DEEPEST] if 0 <= place < len(frames))
                for stack in profile.samples
            )
            yield Thread(int(about["pid"]), int(about["tid"], 0), tuple(stacks))


def code_of(file: str, line: int, pid: int, uid: int, proc: Path = Path("/proc")) -> str:
    """Return a line of a file that a program has named, as far as its user could read it; else nothing.

    Who attaches may be root: what the program's user could not read is not shown.
    """
    if not file.startswith("/"):
        file = f"{_link(proc / str(pid) / 'cwd')}/{file}"
    place = Path(f"{proc}/{pid}/root{file}")
    place = place if place.exists() else Path(file)
    try:
        with open(place, "rb", opener=_at_once) as one:
            about = os.fstat(one.fileno())
            readable = os.geteuid() != 0 or _readable(place, about, uid)
            if not (stat.S_ISREG(about.st_mode) and readable and about.st_size <= _MOST_CODE_BYTES):
                return ""
            lines = one.read(_MOST_CODE_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return plain(lines[line - 1].strip().expandtabs(1))[:_CODE] if 0 < line <= len(lines) else ""


def _at_once(path: str, flags: int) -> int:
    """Open a file; one that is a pipe does not block."""
    return os.open(path, flags | os.O_NONBLOCK)


def _readable(place: Path, about: os.stat_result, uid: int) -> bool:
    """Say whether a user could read a file that is open, by its mode and those of the folders above it."""
    folders = all(one.st_uid == uid or one.st_mode & stat.S_IXOTH for one in map(Path.stat, place.parents))
    return folders and bool(about.st_uid == uid or about.st_mode & stat.S_IROTH)


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""

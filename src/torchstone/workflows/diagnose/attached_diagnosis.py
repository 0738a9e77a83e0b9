"""Diagnosing a program that runs already, from outside: `torchstone attach PID`.

Its stacks, sampled ten times a second, tell which lines take which share of the step loop, and /proc what its processes
spend meanwhile. What follows from these is what follows from the samples of a trial: the causes and remedies of
`diagnose`. How often a line runs, and how long a step takes, is not seen from outside.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from torchstone.analysis.advice.causes import causes_of, shown_path
from torchstone.analysis.advice.rules import Evidence
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.diagnosis import Attached, Cause, Diagnosis, ProcessRole, SampledLine, SampledProcess
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.metric import BACKWARD, DATA, FORWARD, OPTIMIZER, REST, TRANSFER
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Answered, Plan
from torchstone.core.schema.trial import HostLine, HostProfile
from torchstone.core.stats.interval import over_trials
from torchstone.execution import machine_facts
from torchstone.execution.controller.session import Session
from torchstone.execution.program.attached import Frame, Target, Thread, Watched, code_of, find_process, py_spy, watch
from torchstone.execution.program.process import SCHEME
from torchstone.execution.timing.clock import system_clock
from torchstone.storage.record_reader import record_path
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.diagnose.program_diagnosis import PHASES_OF
from torchstone.workflows.diagnose.target import PREFIX
from torchstone.workflows.run.planned_run import Results, published

_WINDOWS = 10  # whose spread is the interval
_FEWEST = 50  # samples that an answer needs
_LINES = 24
_NOT_COUNTED = (0.0, 0.0, 0.0, 0.0, 0.0, 0)  # CPU times, faults, switches and threads of a step
_AT_WORK = 0.25  # of the CPU time of the busiest thread: one that computes with it
_READS = 256 * 1024  # bytes a second: a loader that reads less waits for no file
_WORKER, _FETCH = "torch/utils/data/_utils/worker.py", "torch/utils/data/_utils/fetch.py"
_LOADER = "torch/utils/data/dataloader.py"
_PRINTS = ("torch/_tensor_str.py", "torch/_tensor.py")
_ASKS = re.compile(r"\.(item|tolist|cpu|numpy|nonzero|synchronize)\(")
_CONVERTS = re.compile(
    r"\b(float|int|bool)\((?!.* for )"
)  # of a tensor, it waits for it; of many cells, it reads a table
# A call between its line and torch's first frame, or out of it: seen often where a step takes less than a millisecond.
_CALLS = ((re.compile(r"\.backward\("), BACKWARD), (re.compile(r"\bopt\w*\.(step|zero_grad)\("), OPTIMIZER))
_COPIES = re.compile(r"\.(to|cuda)\(")
_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python\d")
_UPDATES = re.compile(r"(?:^|\.)_(single_tensor|multi_tensor|fused)_\w+$")

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

Place = tuple[str, int, str]


class Sample(NamedTuple):
    """What one stack shows: the phase, the deepest own line, whether it asks for a value, and in which window."""

    phase: str
    place: Place | None
    asks: bool
    window: int


class Looked(msgspec.Struct, frozen=True):
    """The samples of the threads that do the steps, and of processes that load, while they load."""

    steps: tuple[Sample, ...]
    loads: tuple[Sample, ...]
    roles: Mapping[int, ProcessRole]
    trainers: tuple[Thread, ...]
    fused: bool | None


def diagnosed(
    pid: int,
    for_s: float,
    folder: Path,
    command: Sequence[str],
    say: Callable[[str], None],
) -> Results:
    """Look at a process for so long, record what slows it into `folder`, and return that.

    Raises UsageError for what is no training, MissingError where it may not be looked into, TorchstoneError where
    nothing was seen.
    """
    program, target = py_spy(), find_process(pid)
    say(f"looking at process {target.process.pid} for {for_s:g} s: {' '.join(target.process.command)[:80]}")
    watched = watch(target, for_s, system_clock, time.sleep, program)
    code = Code(target)
    seen = looked(watched, target, code)
    case = _case(target, seen)
    machine = Machine(machine_facts.host(), (target.device,), {"torch": target.torch}, machine_facts.settings())
    how = Procedure(trials=1, isolation="program", heap="default", settings=None, budget_s=watched.elapsed_s)
    head = Session(how, ()).head(Plan((case,), ()), machine, f"{PREFIX}{script_of(target.process.command)}", command)
    with RecordWriter(record_path(folder, head.run_id), head) as writer:
        writer.append(Answered(diagnosis_of(head.run_id, case, watched, seen, target, code)))
        run = writer.end((), "done")
    return published(run, folder)


def script_of(command: Sequence[str]) -> str:
    """Return the script of a command: its first word that names one."""
    return next((Path(word).name for word in command[1:] if word.endswith(".py")), Path((*command, "program")[0]).name)


def _case(target: Target, seen: Looked) -> Case:
    updates = any(one.phase in (BACKWARD, OPTIMIZER) for one in seen.steps)
    workload = Workload(
        Task.TRAIN if updates else Task.INFER, f"{SCHEME}:{shlex.join(target.process.command)}", "own", "sample"
    )
    workers = sum(role == ProcessRole.LOADER for role in seen.roles.values())
    loads = workers or any(one.phase == DATA for one in seen.steps)
    return Case(workload, {"num_workers": workers} if loads else {}, Placement(target.device.kind, target.device.index))


class Code:
    """The text of lines, each looked up once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[tuple[int, str, int], str] = {}

    def __call__(self, frame: Frame) -> str:
        """Return the line at which a call stands; nothing where it cannot be read."""
        at = self._target.process.pid, frame.file, frame.line
        if at not in self._known:
            self._known[at] = code_of(frame.file, frame.line, self._target.process.pid, self._target.uid)
        return self._known[at]


# ── what a stack shows ──────────────────────────────────────────────────────────────────────────────────────


def phase_of(stack: Sequence[Frame]) -> str:
    """Return the phase of a step: the innermost pass, but all that a loader or a backward pass calls is its own."""
    phase = REST
    for frame in stack:
        if frame.file.endswith(_LOADER):
            return DATA
        if frame.file.endswith(("torch/autograd/__init__.py", "torch/autograd/graph.py")):
            return BACKWARD
        if frame.file.endswith("torch/nn/modules/module.py") and frame.name.endswith("_call_impl"):
            phase = FORWARD
        elif "torch/optim/" in frame.file and "lr_scheduler" not in frame.file:
            phase = OPTIMIZER
    return phase


def sample_of(stack: Sequence[Frame], window: int, code: Callable[[Frame], str], *, on_device: bool) -> Sample:
    """Return what a stack shows. A copy to a device is a call of its own line, which has no frame of its own."""
    own = next((frame for frame in reversed(stack) if not _LIBRARY.search(frame.file) and frame.line > 0), None)
    phase = phase_of(stack)
    if own is None:
        return Sample(phase, None, False, window)
    last, text = stack[-1], code(own)
    words = _ASKS.search(text) or (on_device and _CONVERTS.search(text))
    asks = last.file.endswith(_PRINTS) or (last is own and bool(words))
    if on_device and last is own and not asks and phase in (REST, FORWARD) and _COPIES.search(text):
        phase = TRANSFER
    if last is own and phase == REST:
        phase = next((called for call, called in _CALLS if call.search(text)), REST)
    return Sample(phase, (own.file, own.line, _function(own, stack)), asks and phase != DATA, window)


def _function(own: Frame, stack: Sequence[Frame]) -> str:
    """Return the function of a line: a comprehension is a call of its own before Python 3.12, and part of its line."""
    around = (frame.name for frame in reversed(stack) if frame.file == own.file and frame.name not in _COMPREHENSIONS)
    return next(around, own.name)


def looked(watched: Watched, target: Target, code: Callable[[Frame], str]) -> Looked:
    """Tell threads that do steps from those that load. Raises TorchstoneError where too little was seen."""
    on_device = target.device.kind != "cpu"
    roles: dict[int, ProcessRole] = dict.fromkeys(watched.processes, ProcessRole.OTHER)
    loads: list[Sample] = []
    by_process: defaultdict[int, list[tuple[Thread, list[Sample]]]] = defaultdict(list)
    for thread in watched.threads:
        below = [_below_worker(stack) for stack in thread.stacks]
        if any(one is not None for one in below):
            roles[thread.pid] = ProcessRole.LOADER
            loading = [(number, one) for number, one in enumerate(below) if one is not None and _fetches(one)]
            fetched = (sample_of(one, _window(number, len(below)), code, on_device=False) for number, one in loading)
            loads += (one._replace(phase=DATA) for one in fetched)
        else:
            samples = [
                sample_of(stack, _window(number, len(thread.stacks)), code, on_device=on_device)
                for number, stack in enumerate(thread.stacks)
            ]
            by_process[thread.pid].append((thread, samples))
    steps: list[Sample] = []
    trainers: list[Thread] = []
    for pid, threads in by_process.items():
        thread, samples = max(threads, key=lambda one: sum(sample.phase != REST for sample in one[1]))
        if roles.get(pid) != ProcessRole.LOADER and any(sample.phase != REST for sample in samples):
            roles[pid] = ProcessRole.TRAINING
            trainers.append(thread)
            steps += samples
    if len(steps) < _FEWEST:
        raise TorchstoneError(_too_little(watched, steps, by_process))
    stacks = (frame.name for thread in trainers for stack in thread.stacks for frame in stack)
    kinds = Counter(found[1] for name in stacks if (found := _UPDATES.search(name)))
    fused = kinds.most_common(1)[0][0] == "fused" if kinds else None
    return Looked(tuple(steps), tuple(loads), roles, tuple(trainers), fused)


def _too_little(
    watched: Watched, steps: Sequence[Sample], by_process: Mapping[int, Sequence[tuple[Thread, Sequence[Sample]]]]
) -> str:
    """Return why there is no answer: it ended, or it did no steps, and where it was instead."""
    pid = next(iter(watched.processes), 0)
    if watched.ended:
        return f"process {pid} has ended after {watched.elapsed_s:.0f} s: too few samples ({len(steps)})"
    if steps:
        return f"too few samples ({len(steps)}): attach for longer, --for 60s"
    places = Counter(one.place for threads in by_process.values() for _, found in threads for one in found if one.place)
    at = "".join(
        f": most of the time it was at {shown_path(file)}:{line}" for (file, line, _), _ in places.most_common(1)
    )
    return (
        f"no step of process {pid} was seen in {watched.elapsed_s:.0f} s{at}; attach while it trains, or longer (--for)"
    )


def _below_worker(stack: Sequence[Frame]) -> Sequence[Frame] | None:
    """Return what the loop of a process that loads has called; None for any other stack.

    What is above it stood on the stack of the training when that process was forked.
    """
    place = next((number for number, frame in enumerate(stack) if frame.file.endswith(_WORKER)), None)
    return None if place is None else stack[place:]


def _fetches(stack: Sequence[Frame]) -> bool:
    return any(frame.file.endswith(_FETCH) for frame in stack)


def _window(number: int, of: int) -> int:
    return _WINDOWS * number // max(1, of)


# ── from samples to a diagnosis ─────────────────────────────────────────────────────────────────────────────


def diagnosis_of(
    run_id: str, case: Case, watched: Watched, seen: Looked, target: Target, code: Callable[[Frame], str]
) -> Diagnosis:
    """Return the causes that the samples show, by the rules of every diagnosis, and the lines."""
    evidence = evidence_of(case, watched, seen, target, code)
    causes = tuple(_with_interval(cause, seen.steps, watched) for cause in causes_of(evidence))
    attached = Attached(
        target.process.pid,
        watched.elapsed_s,
        len(seen.steps),
        _WINDOWS,
        watched.cost_s,
        _lines(seen.steps, code),
        _lines(seen.loads, code),
        tuple(_processes(watched, seen)),
        others_cores=watched.others_cores,
        utilization=watched.utilization,
        ended=watched.ended,
    )
    about = script_of(target.process.command)
    return Diagnosis(run_id, about, case, None, None, causes, attached=attached)


def evidence_of(case: Case, watched: Watched, seen: Looked, target: Target, code: Callable[[Frame], str]) -> Evidence:
    """Return the samples as the Evidence of a step whose time is not known."""
    look = _look(seen.steps, *_shares_of_cpu([(one.pid, one.tid) for one in seen.trainers], watched), code)
    figures = {} if watched.others_cores is None else {"other_cpu_cores": watched.others_cores}
    if watched.utilization is not None:
        figures["device_utilization"] = watched.utilization
        look = under_device(look, watched.utilization)
    facts = Facts(fused_optimizer=seen.fused, threads_in_effect=_threads_at_work(seen, watched))
    return Evidence(
        case,
        figures,
        facts,
        target.device,
        _cores(target.process.pid),
        "default",
        look=look,
        loader_look=_loader_look(watched, seen, code, look),
    )


def under_device(look: HostProfile, utilization: float) -> HostProfile:
    """Return the profile of a host whose device computes meanwhile: what it does then costs the step nothing.

    The host's own phases explain at most the time in which the device idles; the rest of them is the device's passes.
    """
    own = {name: look.phases.get(name, 0.0) for name in (DATA, TRANSFER, REST)}
    kept = min(1.0, (1.0 - utilization) / max(1e-9, sum(own.values())))
    phases = {name: kept * share if name in own else share for name, share in look.phases.items()}
    phases[BACKWARD] = phases.get(BACKWARD, 0.0) + (1.0 - kept) * sum(own.values())
    lines = (
        msgspec.structs.replace(line, share=kept * line.share) if line.phase in own else line for line in look.lines
    )
    return msgspec.structs.replace(look, phases=phases, lines=tuple(sorted(lines, key=lambda line: -line.share)))


def _look(samples: Sequence[Sample], busy: float, queued: float | None, code: Callable[[Frame], str]) -> HostProfile:
    total = max(1, len(samples))
    phases = Counter(one.phase for one in samples)
    places = Counter((one.place, one.phase) for one in samples if one.place is not None)
    asking = Counter((one.place, one.phase) for one in samples if one.asks)
    lines = tuple(
        HostLine(*place, _code_at(place, code), phase, count / total, asks=2 * asking[place, phase] >= count)
        for (place, phase), count in places.most_common(_LINES)
    )
    shares = {name: count / total for name, count in phases.items()}
    return HostProfile(0, 0.0, total, lines, shares, min(1.0, busy), *_NOT_COUNTED, main_queued=queued)


def _loader_look(watched: Watched, seen: Looked, code: Callable[[Frame], str], look: HostProfile) -> HostProfile | None:
    """Return what loading does, in its own processes or, without any, in that of the steps."""
    loaders = [pid for pid, role in seen.roles.items() if role == ProcessRole.LOADER]
    samples = seen.loads or tuple(one for one in seen.steps if one.phase == DATA)
    if not samples or (loaders and not seen.loads):
        return None
    if loaders:
        number = sum(len(one.stacks) for one in watched.threads if one.pid == one.tid and one.pid in loaders)
        fetching = len(seen.loads) / max(1, number)
        busy, queued = (
            None if one is None else one / max(1e-9, fetching)
            for one in _shares_of_cpu([(pid, pid) for pid in loaders], watched)
        )
        spent = [watched.spent[pid].read_bytes for pid in loaders if pid in watched.spent]
    else:  # all that is neither on a core nor waits for one is loading; the rest is so in loading as elsewhere
        share, queued = look.phases.get(DATA, 0.0), look.main_queued
        awake = look.main_busy + (queued or 0.0)
        own = max(0.0, share - (1.0 - awake)) / max(1e-9, share * awake)
        busy, queued = own * look.main_busy, None if queued is None else own * queued
        spent = [watched.spent[one.pid].read_bytes for one in seen.trainers if one.pid in watched.spent]
    read = None if None in spent or not spent else sum(one or 0.0 for one in spent)
    found = _look(samples, max(0.0, busy or 0.0), None if queued is None else min(1.0, queued), code)
    return msgspec.structs.replace(found, read_bytes=None if read is None else read * (read >= _READS))


def _shares_of_cpu(threads: Sequence[tuple[int, int]], watched: Watched) -> tuple[float, float | None]:
    """Return the shares of the time in which threads (process, thread) had a core, and in which they waited for one."""
    spent = [(watched.spent[pid], tid) for pid, tid in threads if pid in watched.spent]
    whole_s = max(1e-9, len(spent) * watched.elapsed_s)
    queued_s = [one.queued_s[tid] for one, tid in spent if tid in one.queued_s]
    busy = sum(one.threads_s.get(tid, 0.0) for one, tid in spent) / whole_s if spent else 1.0
    return min(1.0, busy), min(1.0, sum(queued_s) / whole_s) if spent and len(queued_s) == len(spent) else None


def _threads_at_work(seen: Looked, watched: Watched) -> int | None:
    """Return how many threads compute: those that spend much of what the busiest one does."""
    found = [list(watched.spent[one.pid].threads_s.values()) for one in seen.trainers if one.pid in watched.spent]
    return sum(sum(one >= _AT_WORK * max(spent) for one in spent) for spent in found if any(spent)) or None


def _cores(pid: int) -> int | None:
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:  # it has ended
        return os.cpu_count()


def _with_interval(cause: Cause, samples: Sequence[Sample], watched: Watched) -> Cause:
    """Add the share of what a cause explains over windows of time, with its interval."""
    phases = PHASES_OF.get(cause.id)
    if phases is None and not cause.own_code:
        return cause
    lines = {(place.file, place.line) for place in cause.where}

    def belongs(one: Sample) -> bool:
        if phases is not None:
            return one.phase in phases
        return one.place is not None and (shown_path(one.place[0]), one.place[1]) in lines

    value, low, high = _over_windows(samples, belongs)
    if low is None or high is None:
        return cause
    known: dict[str, Scalar] = {
        "share": value,
        "low": low,
        "high": high,
        "windows": _WINDOWS,
        "window_s": watched.elapsed_s / _WINDOWS,
    }
    return msgspec.structs.replace(cause, evidence=(Statement("share_over_windows", known), *cause.evidence))


def _over_windows(
    samples: Sequence[Sample], belongs: Callable[[Sample], bool]
) -> tuple[float, float | None, float | None]:
    """Return the share of samples that belong to something, and its 95 % confidence interval over windows."""
    of, hits = Counter(one.window for one in samples), Counter(one.window for one in samples if belongs(one))
    value, low, high, _ = over_trials([hits[window] / count for window, count in of.items()], logs=False)
    return value, None if low is None else max(0.0, low), None if high is None else min(1.0, high)


def _lines(samples: Sequence[Sample], code: Callable[[Frame], str]) -> tuple[SampledLine, ...]:
    """Return the lines that take most, each with its phase and interval."""
    places = Counter((one.place, one.phase) for one in samples if one.place is not None)
    return tuple(
        SampledLine(
            shown_path(place[0]), place[1], _code_at(place, code), phase, *_over_windows(samples, _at(place, phase))
        )
        for (place, phase), _ in places.most_common(_LINES)
    )


def _code_at(place: Place, code: Callable[[Frame], str]) -> str:
    file, line, function = place
    return code(Frame(function, file, line))


def _at(place: Place, phase: str) -> Callable[[Sample], bool]:
    return lambda one: one.place == place and one.phase == phase


def _processes(watched: Watched, seen: Looked) -> Iterator[SampledProcess]:
    for pid, process in sorted(watched.processes.items()):
        spent = watched.spent.get(pid)
        cores = sum(spent.threads_s.values()) / max(1e-9, watched.elapsed_s) if spent is not None else None
        role = seen.roles.get(pid, ProcessRole.OTHER)
        yield SampledProcess(pid, role, " ".join(process.command)[:120], cores, process.rank)

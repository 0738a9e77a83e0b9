"""Trial: one execution of one Case in a fresh process, with everything it measured. The statistical replicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from torchstone.core.messages import OUTCOMES, Value, filled
from torchstone.core.schema.facts import Facts


class Stage(StrEnum):
    """Where in a trial's life a value was taken."""

    SETUP = "setup"
    WARMUP = "warmup"
    STEADY = "steady"


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    UNSUPPORTED = "unsupported"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"  # not started: it could not have ended well; the message says why


class Measurement(msgspec.Struct, frozen=True):
    """Raw values of one Metric in one Trial: one stage, one window (latency, throughput, …), one phase, one rank."""

    metric: str
    stage: Stage
    values: tuple[float, ...]
    window: str | None = None
    phase: str | None = None
    rank: int = 0


class Series(msgspec.Struct, frozen=True):
    """Timestamped readings of one gauge: seconds since the trial was asked for, and where they come from."""

    metric: str
    source: str
    at_s: tuple[float, ...]
    values: tuple[float, ...]
    device: str | None = None
    rank: int = 0


class Purpose(StrEnum):
    """What a trial was taken for. Only replicates stand behind an Estimate: a probe was chosen for what it said."""

    REPLICATE = "replicate"
    PROBE = "probe"  # of a search: shorter windows, and the best of many looks better than it is


class Disturber(StrEnum):
    """What disturbed a trial: who else used what it was measured on, or what held it up."""

    PROCESSES = "processes"  # other programs used the CPU
    WAITS = "waits"  # its threads waited for a core, though programs of this system used little
    STEAL = "steal"  # the hypervisor gave the CPU to other virtual machines
    QUOTA = "quota"  # the control group's CPU quota was used up
    STOPPED = "stopped"  # the trial was stopped by a signal
    SWAP = "swap"  # the host moved memory to or from the disk
    DEVICE_SHARED = "device_shared"  # other processes were on the device
    DEVICE_THROTTLED = "device_throttled"  # heat or the hardware lowered the device's clock


_HIDING_CORES = 0.5  # a figure is no longer exact from 0.15 on; which part of a step is the largest still is known


class Disturbance(msgspec.Struct, frozen=True):
    """What else happened on the machine during the steady windows of a trial, judged by evidence alone.

    `disturbed`: so much of them was disturbed that the whole trial tells little. `share`: the disturbed share of their
    time, 0 to 1. `left_out_s`: begin and end of the parts that figures leave out, in seconds since the trial was
    requested. `cores`: CPU cores that others held, mean over the windows; None where that was not counted.
    `processes`: the programs that used the most CPU meanwhile, each with its cores.
    """

    disturbed: bool
    share: float
    causes: tuple[Disturber, ...] = ()
    left_out_s: tuple[tuple[float, float], ...] = ()
    cores: float | None = None
    processes: tuple[tuple[str, float], ...] = ()

    @property
    def hides_causes(self) -> bool:
        """Whether the parts of a step say nothing of the program: others held half a core, or it was no process."""
        others = {Disturber.PROCESSES, Disturber.WAITS}.issuperset(self.causes)
        return not others or self.cores is None or self.cores >= _HIDING_CORES


class Reason(StrEnum):
    """Why a trial failed or was not started, where it is known; its text: OUTCOMES (core/messages.py)."""

    DEVICE_LOST = "device_lost"
    IN_LOADER = "in_loader"  # something was raised in a process of a DataLoader
    LOADER_KILLED = "loader_killed"  # by SIGKILL: a process of a DataLoader
    RANK_DIED = "rank_died"  # without a last word; values: rank, and wrong, its signal or exit code
    PEER_GONE = "peer_gone"  # the other end of a connection between ranks: that one failed first
    TIMEOUT = "timeout"  # it was ended for its time; values: timeout_s, during
    HUNG = "hung"  # no rank did a step; values: silent_s, during
    TIME_LIMIT = "time_limit"  # the run's; values: limit
    LOSS_NOT_FINITE = "loss_not_finite"
    ABSENT = "absent"  # the device is not here; values: why
    # not started
    SAME_BEFORE = "same_before"  # the Case failed before; values: status, trial, why
    SMALLER_BEFORE = "smaller_before"  # a smaller one ran out of memory; values: sizes, trial
    TOO_LARGE = "too_large"  # by extrapolation; values: need_bytes, room_bytes, memory, batch_sizes
    OTHER_SIDE = "other_side"  # the other side of its pair failed to start


class Outcome(msgspec.Struct, frozen=True):
    """How it ended, why, and where in the user's own code if it did not end well.

    `message` is for people; what is decided reads `reason` and its `values`.
    """

    status: Status
    message: str | None = None
    traceback: str | None = None
    reason: Reason | None = None
    values: Mapping[str, Value] = {}

    def __hash__(self) -> int:
        """Return a hash; equal values have equal ones."""
        return hash((self.status, self.message, self.traceback, self.reason))


def ended(status: Status, reason: Reason, values: Mapping[str, Value] = {}) -> Outcome:
    """Return the Outcome of a reason that has a text of its own."""
    return Outcome(status, filled(OUTCOMES[reason], values), None, reason, values)


class Trial(msgspec.Struct, frozen=True, tag="trial", tag_field="record"):
    """One execution of one Case. `facts` are single things worth knowing (parameters, warm-up steps, …)."""

    trial_id: str
    case_id: str
    number: int
    order: int
    started_utc: str
    duration_s: float
    outcome: Outcome
    facts: Facts = msgspec.field(default_factory=Facts)
    measurements: tuple[Measurement, ...] = ()
    series: tuple[Series, ...] = ()
    purpose: Purpose = Purpose.REPLICATE
    disturbance: Disturbance | None = None  # None: nothing was watched, or it was not asked for

    @property
    def disturbed(self) -> bool:
        """Whether other work on the machine disturbed it so much that its figures tell little."""
        return self.disturbance is not None and self.disturbance.disturbed

    @property
    def shared_device(self) -> bool:
        """Whether other processes used its device."""
        return any(s.metric == "device_other_processes" and max(s.values, default=0.0) > 0.0 for s in self.series)

    def values(self, metric: str, stage: Stage = Stage.STEADY, window: str | None = None) -> tuple[float, ...]:
        """Return the raw values of a Metric in a stage (and window, if named), rank 0, all phases left out."""
        for m in self.measurements:
            if (
                m.metric == metric
                and m.stage == stage
                and m.phase is None
                and m.rank == 0
                and window in (None, m.window)
            ):
                return m.values
        return ()


class _TrialLike(Protocol):
    @property
    def outcome(self) -> Outcome: ...

    @property
    def purpose(self) -> Purpose: ...

    @property
    def disturbed(self) -> bool: ...


T = TypeVar("T", bound=_TrialLike)

FEWEST_UNDISTURBED = 3  # trials that an estimate can rest on

# What the index's columns say of a replicate that ended well (storage/database.py).
REPLICATE_COLUMNS: Mapping[str, str] = {"status": str(Status.OK), "purpose": str(Purpose.REPLICATE)}


def ended_well(trials: Iterable[T]) -> tuple[T, ...]:
    """Return the trials that ended well."""
    return tuple(trial for trial in trials if trial.outcome.status == Status.OK)


def replicates(trials: Iterable[T]) -> tuple[T, ...]:
    """Return the trials that no search chose for what they said: the best of many probes looks better than it is."""
    return tuple(trial for trial in trials if trial.purpose == Purpose.REPLICATE)


def estimation_trials(trials: Sequence[T]) -> tuple[T, ...]:
    """Return the trials behind an estimate: the undisturbed replicates, or the probes where there is no replicate.

    See `undisturbed`.
    """
    taken = replicates(trials) or tuple(trials)
    disturbed = [trial.disturbed for trial in taken]
    if not any(disturbed):
        return taken
    kept = undisturbed(disturbed)
    return tuple(trial for trial, keep in zip(taken, kept, strict=True) if keep)


def undisturbed(disturbed: Sequence[bool]) -> list[bool]:
    """Return which trials of a case its estimate rests on, from whether each was disturbed.

    Those that were not. Where they are fewer than 3, or fewer than the others: all, and their figure is one of a busy
    machine. The rule looks at what else the machine did, never at the values of the trials.
    """
    quiet = sum(not one for one in disturbed)
    is_enough = quiet >= FEWEST_UNDISTURBED and 2 * quiet >= len(disturbed)
    return [not one or not is_enough for one in disturbed]


def is_of_busy_machine(trials: Sequence[T]) -> bool:
    """Return whether the estimate of these trials rests on disturbed ones, since too few others are left."""
    return any(trial.disturbed for trial in estimation_trials(trials))


class HostLine(msgspec.Struct, frozen=True):
    """A line of the user's own code, the deepest of them on the stack. `share`: of the samples, so of the step.

    `runs_per_step`, `waits_per_step`: how often it runs, and how often it calls for a value of a tensor (item, tolist,
    …), counted in one step; None where that step was not traced. `asks`: its samples are such calls.
    """

    file: str
    line: int
    function: str
    code: str
    phase: str
    share: float
    runs_per_step: float | None = None
    waits_per_step: float | None = None
    asks: bool = False


class Operators(msgspec.Struct, frozen=True):
    """What a step asks of torch. `waits`: values of tensors that the host asked for, the library's own among them.

    Of an accelerator: kernels launched, and copies to it from the host.
    """

    calls: int
    waits: int
    kernels: int | None = None
    kernel_s: float | None = None
    pageable_copies: int | None = None
    copy_s: float | None = None


class HostProfile(msgspec.Struct, frozen=True, tag="host_profile", tag_field="event"):
    """A pass of its own over some steps. `step_s`: its mean step, by the host's clock.

    `main_busy`: the share of the time in which the thread that does the steps had a core; the rest it waited, of it
    `main_queued` for a core (None where the system does not tell). CPU times are of the whole process, a step.
    `tensors`: how many the optimizer updates; `elements`: their median size. `read_bytes`: from files or pipes, a step.
    """

    steps: int
    step_s: float
    samples: int
    lines: tuple[HostLine, ...]
    phases: Mapping[str, float]
    main_busy: float
    user_s: float
    system_s: float
    minor_faults: float
    major_faults: float
    involuntary_switches: float
    threads: int
    operators: Operators | None = None
    tensors: int | None = None
    elements: float | None = None
    main_queued: float | None = None
    read_bytes: float | None = None

    @property
    def at_work(self) -> float:
        """The share of the time with a core, of that without waiting for one: what it would be with a free core."""
        return self.main_busy / max(self.main_busy, 1.0 - (self.main_queued or 0.0), 1e-9)

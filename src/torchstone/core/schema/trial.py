"""Trial: one execution of one Case in a fresh process, with everything it measured. The statistical replicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from torchstone.core.schema.axis import Scalar


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


# The fact of a trial that was to be forked and was started as a new interpreter: why.
UNLIKE_NODES = "unlike_nodes"  # what each node of a trial is, where they are not of one kind
NOT_FORKED = "not_forked"
DEVICE_LOST = "the device was lost"  # what the message of an Outcome begins with when a device disappears
ENERGY_TICK = "energy_tick_s"  # a fact: how often the device's energy counter moves


class Outcome(msgspec.Struct, frozen=True):
    """How it ended, why, and where in the user's own code if it did not end well."""

    status: Status
    message: str | None = None
    traceback: str | None = None


class Trial(msgspec.Struct, frozen=True, tag="trial", tag_field="record"):
    """One execution of one Case. `facts` are single things worth knowing (parameters, fused, stopped_because, …)."""

    trial_id: str
    case_id: str
    number: int
    order: int
    started_utc: str
    duration_s: float
    outcome: Outcome
    facts: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    series: tuple[Series, ...] = ()
    purpose: Purpose = Purpose.REPLICATE

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


class _Taken(Protocol):
    @property
    def outcome(self) -> Outcome: ...

    @property
    def purpose(self) -> Purpose: ...


T = TypeVar("T", bound=_Taken)

# What the index's columns say of a replicate that ended well (storage/database.py).
REPLICATE_COLUMNS: Mapping[str, str] = {"status": str(Status.OK), "purpose": str(Purpose.REPLICATE)}


def ended_well(trials: Iterable[T]) -> tuple[T, ...]:
    """Return the trials that ended well."""
    return tuple(trial for trial in trials if trial.outcome.status == Status.OK)


def replicates(trials: Iterable[T]) -> tuple[T, ...]:
    """Return the trials that no search chose for what they said: the best of many probes looks better than it is."""
    return tuple(trial for trial in trials if trial.purpose == Purpose.REPLICATE)


def believed(trials: Sequence[T]) -> tuple[T, ...]:
    """Return the trials that stand behind a number: the replicates; the probes only where there is nothing else."""
    return replicates(trials) or tuple(trials)

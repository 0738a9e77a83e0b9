"""Run: one invocation of the tool on one Machine. The record is its head, its trials, its findings and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from torchstone.core.schema.answer import AbResult, Answer, TuneSpec
from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Comparison, Rules
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Trial

# Of every file that torchstone writes to read it again. What a release wrote stays readable: a later schema is a
# further number, with a golden record of each kind (tests/golden/schema_1).
# 1  0.1.0
SCHEMA = 1


class Slot(msgspec.Struct, frozen=True):
    """One planned trial: which Case (its place in the Plan's list), and which repetition of it."""

    case: int
    number: int


class Plan(msgspec.Struct, frozen=True):
    """The Cases of a run and the order in which their trials are taken."""

    cases: tuple[Case, ...]
    slots: tuple[Slot, ...]


class RequestSource(msgspec.Struct, frozen=True):
    """Where a request came from: the recipe's name or the file's path as typed, and the digest of its text."""

    word: str
    sha256: str


class Usual(msgspec.Struct, frozen=True):
    """What earlier runs on this machine tell of its trials.

    `deviation`: the standard deviation of the logarithm of a trial's throughput, typical of `cases` cases of `runs`
    runs.
    """

    deviation: float
    cases: int
    runs: int


class Head(msgspec.Struct, frozen=True, tag="head", tag_field="record"):
    """The first line of a record: everything that is known before the first trial."""

    schema: int
    run_id: str
    name: str
    started_utc: str
    command: tuple[str, ...]
    machine: Machine
    procedure: Procedure
    plan: Plan
    source: RequestSource | None = None  # the recipe or file the request came from
    code: Mapping[str, str] = {}  # the user's own model files: SHA-256 of their text, by what the model is called
    tune: TuneSpec | None = None  # what a tune looks for
    ab: Rules | None = None  # of a live comparison: its two sides are the Cases of the plan, the baseline first
    usual: Usual | None = None  # moderates the spread of few trials
    machines: tuple[Machine, ...] = ()  # of a run merged from jobs: all of them; a trial's fact `machine` is the place

    @property
    def measurable(self) -> tuple[int, ...]:
        """The places in the Plan of the Cases whose device a Machine has: all, where none names a device.

        Of the others the record has one trial each, `unsupported`, which says why.
        """
        machines = self.machines or (self.machine,)
        named = any(machine.devices for machine in machines)
        placed = [(case.placement.device, case.placement.index) for case in self.plan.cases]
        return tuple(i for i, at in enumerate(placed) if not named or any(m.device(*at) is not None for m in machines))


class Added(msgspec.Struct, frozen=True, tag="case", tag_field="record"):
    """A line of a record: a Case that was not planned, proposed by a search while the run went on."""

    case: Case


class Answered(msgspec.Struct, frozen=True, tag="answer", tag_field="record"):
    """A line of a record: what a run found that was to answer more than how fast its cases are."""

    answer: Answer


class Noted(msgspec.Struct, frozen=True, tag="finding", tag_field="record"):
    """A line of a record: what a check saw."""

    finding: Finding


class End(msgspec.Struct, frozen=True, tag="end", tag_field="record"):
    """The last line of a record. A run without one was cut off."""

    ended_utc: str
    status: str  # "done", "interrupted", "out of time"
    why: str | None = None  # why no more trials were taken, where their number was not given


Line = Head | Added | Trial | Noted | Answered | End


class Run(msgspec.Struct, frozen=True):
    """A whole run, put together from its record. Cases added on the way are in the head's Plan."""

    head: Head
    trials: tuple[Trial, ...]
    findings: tuple[Finding, ...]
    end: End | None
    answer: Answer | None = None

    @property
    def comparison(self) -> Comparison | None:
        """What a live comparison found; None of every other run."""
        return self.answer.comparison if isinstance(self.answer, AbResult) else None

    def of_case(self, case_id: str) -> tuple[Trial, ...]:
        """Return the trials of one Case in the order they were taken."""
        return tuple(t for t in self.trials if t.case_id == case_id)


IMPORTED = "imported"  # the isolation of a Procedure that is not known


def total_runtime_s(taken: Iterable[tuple[Facts, float | None]]) -> float | None:
    """Return how long trials took in all (s), of pairs of their facts and durations: of another tool's, as it says.

    None where it does not: of such trials no duration is known.
    """
    trials = list(taken)
    for facts, _ in trials:
        told = facts.total_runtime_s
        if told is not None and told > 0.0:
            return told
    if any(facts.imported_from is not None for facts, _ in trials):
        return None
    return sum(duration_s or 0.0 for _, duration_s in trials)


def is_imported(run: Run) -> bool:
    """Say whether another tool measured this run."""
    return run.head.procedure.isolation == IMPORTED

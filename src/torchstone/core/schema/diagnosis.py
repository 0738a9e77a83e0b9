"""A diagnosis: causes with their evidence, what-ifs that were tried, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.core.schema.advice import Advice, Remedy, Statement
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.trial import Disturbance

OUT_OF_MEMORY = "out_of_memory"  # the one cause of a case that has no step
BROKEN_LOSS, SAME_LOSS = "loss_broken", "loss_same"  # ids; broken: with the candidate's settings alone
_LEAST = 0.02  # of the step that is taken to remain, whatever goes
_REMAINS = 0.65  # of the time of what remains (docs/diagnosing.md: 0.75 was measured)


class CauseKind(StrEnum):
    """The class of a bottleneck: what there is too little of."""

    COMPUTE = "compute"
    MEMORY = "memory"
    IO = "I/O"
    OVERHEAD = "overhead"  # of none: the host, or the device, is busy with what is not the work itself


class CodePlace(msgspec.Struct, frozen=True):
    """A line of the user's own code. `share` is of the step (of the loading of a batch, where that was looked at)."""

    file: str
    line: int
    code: str
    share: float
    runs_per_step: float | None = None


class WhatIf(msgspec.Struct, frozen=True):
    """Settings that might help, to be tried against the present ones. `heap`: of the process, where that is meant.

    `ceiling`: no settings to take, but the most that any could gain (a loader that is never waited for).
    """

    settings: Mapping[str, Scalar]
    heap: str | None = None
    ceiling: bool = False

    @property
    def name(self) -> str:
        """What it is called, as it is typed."""
        told = {**self.settings, **({"heap": self.heap} if self.heap is not None else {})}
        return ", ".join(f"{axis}={scalar_word(value)}" for axis, value in told.items())


class Cause(msgspec.Struct, frozen=True):
    """One cause. `share`: of the step, what it explains: at most that would go away with it. `high`: its upper limit.

    `usual`: what is usually behind it. `sound`: nothing is wrong, it is what a step consists of.
    """

    id: str
    kind: CauseKind
    title: Statement
    share: float
    evidence: tuple[Statement, ...]
    high: float | None = None
    where: tuple[CodePlace, ...] = ()
    usual: tuple[Statement, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    what_ifs: tuple[WhatIf, ...] = ()
    own_code: bool = False  # no setting changes it
    sound: bool = False

    @property
    def bound(self) -> Estimate:
        """How many times as fast without it: estimated from its share of the step (Amdahl, AFIPS 1967).

        The interval begins at 1, for what takes its place costs something, too. Its end takes the share at its upper
        limit, and lets what remains become faster by as much as was seen where a loop between operators was removed:
        their data stay in the caches.
        """
        value = 1.0 / max(_LEAST, 1.0 - self.share)
        most = 1.0 / max(_LEAST, _REMAINS * (1.0 - max(self.share, self.high or 0.0)))
        return Estimate(value, 1.0, most, 0.95, "ratio", "share of the step, not measured", 1, 1)


class TriedRemedy(msgspec.Struct, frozen=True):
    """What came of a what-if. `gain`: how many times as fast, by items; None where there is none, `message` says why.

    `memory_ratio`: peak of the candidate ÷ present. `loss`: what it does to what is computed. `first_look`: times the
    present rate in one short trial, which only says what is worth more.
    """

    cause: str
    what_if: WhatIf
    verdict: Judgement | None = None
    gain: Estimate | None = None
    memory_bytes: float | None = None
    memory_ratio: float | None = None
    loss: Statement | None = None
    message: Statement | None = None
    first_look: float | None = None

    @property
    def breaks(self) -> bool:
        """Whether the loss is no number any more."""
        return self.loss is not None and self.loss.id == BROKEN_LOSS

    @property
    def helps(self) -> bool:
        """Whether it is faster here, and at another time, by all of its stated interval; and its loss is a number."""
        low = self.gain.low if self.gain is not None else None
        return self.verdict == Judgement.BETTER and low is not None and low > 1.0 and not self.breaks


class ChecklistItem(Statement, frozen=True):
    """One line of the list of what to have looked at before a long training: done, or not."""

    done: bool = False


class ProcessRole(StrEnum):
    """What a process of a program does."""

    TRAINING = "training"  # or serving: it does the steps
    LOADER = "loader"
    OTHER = "other"


class SampledLine(msgspec.Struct, frozen=True):
    """A line of the user's own code as it was sampled from outside. `share`: of the step; of loading, by a loader.

    `low`, `high`: its 95 % confidence interval over windows of time.
    """

    file: str
    line: int
    code: str
    phase: str
    share: float
    low: float | None = None
    high: float | None = None


class SampledProcess(msgspec.Struct, frozen=True):
    """A process that was looked at. `cores`: that it kept busy."""

    pid: int
    role: ProcessRole
    command: str
    cores: float | None = None
    rank: int | None = None


class Attached(msgspec.Struct, frozen=True):
    """How a program that ran already was looked at, and what was seen. `cost_s`: CPU time that this took.

    `paused_s`: how long the program stood still for it. `others_cores`: kept busy by other programs.
    """

    pid: int
    elapsed_s: float
    samples: int
    windows: int
    cost_s: float
    lines: tuple[SampledLine, ...] = ()
    loader_lines: tuple[SampledLine, ...] = ()
    processes: tuple[SampledProcess, ...] = ()
    paused_s: float = 0.0
    others_cores: float | None = None
    utilization: float | None = None
    ended: bool = False


class Diagnosis(msgspec.Struct, frozen=True, tag="diagnosis", tag_field="kind"):
    """What is wrong with one Case, most of it first, and what to do.

    `pattern`: what the recorded Cases say together. `limits`: what bounds the step, by the device's peaks. `applied`:
    what to take, all that helped at once. `unmeasured`: why nothing was measured here, where that is so. `fed`: what a
    trial tells of the user's own data. `disturbance`: what else the machine did each time the step was measured
    (`is_hidden`: so much that no cause can be named). `command`: what runs with the settings of `applied`. `attached`:
    how it was looked at from outside, and its lines.
    """

    run_id: str
    about: str
    case: Case
    throughput: float | None
    step_s: float | None
    causes: tuple[Cause, ...]
    tried: tuple[TriedRemedy, ...] = ()
    applied: TriedRemedy | None = None
    pattern: tuple[Advice, ...] = ()
    limits: tuple[Statement, ...] = ()
    questions: tuple[Statement, ...] = ()
    checklist: tuple[ChecklistItem, ...] = ()
    unmeasured: Statement | None = None
    fed: Facts = msgspec.field(default_factory=Facts)
    disturbance: Disturbance | None = None
    command: str | None = None
    attached: Attached | None = None

    @property
    def is_hidden(self) -> bool:
        """Whether others did so much that nothing can be diagnosed."""
        return self.disturbance is not None and self.disturbance.hides_causes

"""What crosses the pipe between the controller and the process of a trial: one request in, events out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Peaks
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.model import OwnData
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import EpochEnded, Evaluated, Evaluation, Fit
from torchstone.core.schema.trial import HostProfile, Measurement, Outcome


class _CaseRequest(msgspec.Struct, frozen=True, tag_field="ask"):
    """What every request has that sets a Case up. `number`: of the trial."""

    case: Case
    procedure: Procedure
    number: int = 0


class TrialRequest(_CaseRequest, frozen=True, tag="trial"):
    """Measure this Case once, in as many processes as it has ranks. `trace_path`: and trace a step into this file.

    `host_profile` adds a look at where the host's time goes, after everything is measured.
    """

    trace_path: str | None = None
    host_profile: bool = False


class RehearseRequest(_CaseRequest, frozen=True, tag="rehearse"):
    """Say what the user's own code brought to work on (Brought), and do one step: can the Case be measured at all?

    `left_open`: axes that nobody named, which this data decides. `for_turns`: somebody's own program is going to take
    turns, and shows whether it can be forked.
    """

    left_open: tuple[str, ...] = ()
    for_turns: bool = False


class TrainRequest(_CaseRequest, frozen=True, tag="fit", kw_only=True):
    """Train to an end, and send every epoch."""

    fit: Fit


class EvaluateRequest(_CaseRequest, frozen=True, tag="evaluate", kw_only=True):
    """Judge weights, and send a Judged."""

    evaluation: Evaluation


class SaveRequest(_CaseRequest, frozen=True, tag="save", kw_only=True):
    """Write the model of this Case into an empty folder, in files of its name, and send a Saved.

    `path`: where they will be, without suffix.
    """

    folder: str
    path: str


class TurnsRequest(_CaseRequest, frozen=True, tag="turns"):
    """Take turns with another process (ab/) instead of measuring windows.

    `shift_bytes`: how far the heap is moved before anything is built, so that the memory layout varies
    from process to process, and not the same in all that are forked from one template.
    """

    shift_bytes: int = 0


class Meeting(msgspec.Struct, frozen=True):
    """Where the ranks of several nodes meet: at a port of the first one. `node`: which of the `names` this one is."""

    address: str
    port: int
    node: int
    names: tuple[str, ...]


class NodeRequest(msgspec.Struct, frozen=True, tag="node", tag_field="ask"):
    """Carry out the ranks that this node has of a trial on several; each node is sent its own."""

    trial: TrialRequest
    meeting: Meeting


class InspectRequest(msgspec.Struct, frozen=True, tag="inspect", tag_field="ask"):
    """Say which devices there are and which versions of what is installed."""


class PeaksRequest(msgspec.Struct, frozen=True, tag="peaks", tag_field="ask"):
    """Measure what this device can do at best, in about `budget_s`; the disk is read in `folder`."""

    placement: Placement
    budget_s: float
    folder: str


class MemoryRequest(msgspec.Struct, frozen=True, tag="memory", tag_field="ask"):
    """Tell the peak memory of this Case on a device that need not be here (None: on the CPU), without taking a step.

    batches: the sizes asked about. limits_bytes: for each, the largest batch that keeps to it. settings: as in the
    Procedure.
    """

    case: Case
    device: DeviceInfo | None
    batches: tuple[int, ...]
    limits_bytes: tuple[int, ...] = ()
    settings: str | None = None
    seed: int = 0
    left_open: tuple[str, ...] = ()


class BurstRequest(msgspec.Struct, frozen=True, tag="burst", tag_field="ask"):
    """Open this device, say Entered("ready"), and do a Burst whenever told, until told Finish.

    `cores`: on these logical cores only; none: wherever the system likes.
    """

    placement: Placement
    cores: tuple[int, ...] = ()


CaseRequest = TrialRequest | RehearseRequest | TrainRequest | EvaluateRequest | SaveRequest | TurnsRequest
Request = CaseRequest | NodeRequest | InspectRequest | PeaksRequest | MemoryRequest | BurstRequest


class TakeTurn(msgspec.Struct, frozen=True, tag="turn", tag_field="word"):
    """Do so many steps now, after `lead_in` steps that are not measured, and answer with TurnEnded.

    `cores`: on these logical cores only; none: wherever the system likes.
    """

    steps: int
    lead_in: int = 0
    cores: tuple[int, ...] = ()


class Begin(msgspec.Struct, frozen=True, tag="begin", tag_field="word"):
    """The other side is not computing: build, and warm up. Somebody's own program waits for it."""


class Finish(msgspec.Struct, frozen=True, tag="finish", tag_field="word"):
    """There are no further turns: send what was measured, and end."""


class Burst(msgspec.Struct, frozen=True, tag="burst", tag_field="word"):
    """Keep the device busy for so long with each kind of work, and answer with BurstDone."""

    seconds: float


Word = Begin | TakeTurn | Finish
BurstWord = Burst | Finish


# The signal that asks the process of a trial where it is; its Stack is the answer. By name: Windows has no such signal.
ASK_WHERE = "SIGUSR2"


class Live(msgspec.Struct, frozen=True, tag="live", tag_field="event"):
    """The process runs."""


class Entered(msgspec.Struct, frozen=True, tag="entered", tag_field="event"):
    """A stage begins (building, warm-up, latency, …), at a moment of the clock that all processes share.

    `measures`: it is a window, which nothing should disturb.
    """

    stage: str
    at_s: float
    measures: bool = False


class Progress(msgspec.Struct, frozen=True, tag="progress", tag_field="event"):
    """At most one a second, between steps: how far, and the present median step."""

    stage: str
    steps: int
    elapsed_s: float
    step_s: float
    of: int | None = None  # how many steps there will be, where that is known


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """Warmed up, and waiting for its first turn.

    `step_s`: the median of its last warm-up steps. `queue`: steps to give away before those of a turn: as many as there
    are batches that may lie ready in its loader by then, or one where the loader's processes wait, too. `turn`: steps
    after which the coming of its batches repeats.
    """

    step_s: float
    queue: int
    turn: int


class TurnEnded(msgspec.Struct, frozen=True, tag="turn_ended", tag_field="event"):
    """A turn is done: when it began on the shared clock, how long its steps took, and the CPU time of its process."""

    begin_s: float
    elapsed_s: float
    cpu_s: float


class Brought(msgspec.Struct, frozen=True, tag="brought", tag_field="event"):
    """What the user's own code gave to work on; sent by a rehearsal before its step."""

    data: OwnData


class Saved(msgspec.Struct, frozen=True, tag="saved", tag_field="event"):
    """A model was written: what loads it in Python and runs it, line by line."""

    lines: tuple[str, ...]


class Measured(msgspec.Struct, frozen=True, tag="measured", tag_field="event"):
    """Everything a trial measured, sent once, after its last window."""

    measurements: tuple[Measurement, ...]
    facts: Facts
    windows_s: Mapping[str, tuple[float, float]] = {}  # begin and end of each steady window, on the shared clock


class BurstDone(msgspec.Struct, frozen=True, tag="burst_done", tag_field="event"):
    """What a device did in a Burst: by kind of work, FLOP/s or bytes/s."""

    rates: Mapping[str, float]


class Inspected(msgspec.Struct, frozen=True, tag="inspected", tag_field="event"):
    """The devices and versions found."""

    devices: tuple[DeviceInfo, ...]
    software: Mapping[str, str | None]
    missing: Mapping[str, str]  # device kind → what was looked for and not found
    seen: Mapping[str, str] = {}  # device kind of which none can be used → what the driver or the kernel shows of it
    slices: Mapping[str, str] = {}  # UUID of each slice of a divided card (MIG) → its name and card

    @property
    def unusable(self) -> str | None:
        """What is in the machine and cannot be used, and why; None where there is no such device."""
        told = [f"torch cannot use {shown}: {self.missing.get(kind)}" for kind, shown in self.seen.items()]
        return "; ".join(told) or None


class PeaksMeasured(msgspec.Struct, frozen=True, tag="peaks_measured", tag_field="event"):
    """What the device did at best."""

    peaks: Peaks


class MemoryPrediction(msgspec.Struct, frozen=True, tag="memory_prediction", tag_field="event"):
    """The peak of each batch size asked about, and of the largest batch within each limit; None: not even 1 is.

    `fixed`: why there is one batch size only, where the user's own data come in batches.
    """

    peaks: tuple[PeakMemory, ...]
    largest: tuple[PeakMemory | None, ...]
    fixed: Statement | None = None


class Stack(msgspec.Struct, frozen=True, tag="stack", tag_field="event"):
    """What the interpreter itself wrote into the pipe: where it was when a signal ended it, or when it was asked."""

    lines: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, tag="ended", tag_field="event"):
    """The last event. A process that dies without one crashed."""

    outcome: Outcome
    mistake: str | None = None  # the line for a user whose own model or data is at fault


Event = (
    Live
    | Entered
    | Progress
    | EpochEnded
    | Evaluated
    | Ready
    | TurnEnded
    | Brought
    | Saved
    | Measured
    | HostProfile
    | Inspected
    | PeaksMeasured
    | MemoryPrediction
    | BurstDone
    | Stack
    | Ended
)

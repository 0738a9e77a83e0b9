"""What crosses the pipe between the controller and the process of a trial: one request in, events out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.terms.axis import Scalar
from torchstone.terms.case import Case
from torchstone.terms.fit import EpochEnded, Evaluation, Judged
from torchstone.terms.machine import DeviceInfo
from torchstone.terms.procedure import Procedure
from torchstone.terms.trial import Measurement, Outcome


class TrialRequest(msgspec.Struct, frozen=True, tag="trial", tag_field="ask"):
    """Measure this Case once. `rehearse` stops after one step: is the user's own model fit to be measured at all?

    A Procedure with a Fit trains to an end instead; an `evaluation` judges weights.
    """

    case: Case
    procedure: Procedure
    number: int
    rehearse: bool = False
    trace_path: str | None = None
    evaluation: Evaluation | None = None


class InspectRequest(msgspec.Struct, frozen=True, tag="inspect", tag_field="ask"):
    """Say which devices there are and which versions of what is installed."""


Request = TrialRequest | InspectRequest


# The signal that asks the process of a trial where it is; its Stack is the answer. By name: Windows has no such signal.
ASK_WHERE = "SIGUSR2"


class Live(msgspec.Struct, frozen=True, tag="live", tag_field="event"):
    """The process runs."""


class Entered(msgspec.Struct, frozen=True, tag="entered", tag_field="event"):
    """A stage begins (building, warm-up, latency, …), at a moment of the clock that all processes share."""

    stage: str
    at_s: float


class Progress(msgspec.Struct, frozen=True, tag="progress", tag_field="event"):
    """At most one a second, between steps: how far, and the present median step."""

    stage: str
    steps: int
    elapsed_s: float
    step_s: float
    of: int | None = None  # how many steps there will be, where that is known


class Measured(msgspec.Struct, frozen=True, tag="measured", tag_field="event"):
    """Everything a trial measured, sent once, after its last window."""

    measurements: tuple[Measurement, ...]
    facts: Mapping[str, Scalar]
    windows_s: Mapping[str, tuple[float, float]] = {}  # begin and end of each steady window, on the shared clock


class Inspected(msgspec.Struct, frozen=True, tag="inspected", tag_field="event"):
    """The devices and versions found."""

    devices: tuple[DeviceInfo, ...]
    software: Mapping[str, str | None]
    missing: Mapping[str, str]  # device kind → what was looked for and not found


class Stack(msgspec.Struct, frozen=True, tag="stack", tag_field="event"):
    """What the interpreter itself wrote into the pipe: where it was when a signal ended it, or when it was asked."""

    lines: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, tag="ended", tag_field="event"):
    """The last event. A process that dies without one crashed."""

    outcome: Outcome
    mistake: str | None = None  # the line for a user whose own model or data is at fault


Event = Live | Entered | Progress | EpochEnded | Judged | Measured | Inspected | Stack | Ended

"""A part of a record: the trials of some Cases with all they measured, of others a few Metrics, of the rest nothing.

Of 10,000 trials the raw values take half a gigabyte as Python's numbers; a report shows those of a few dozen.
"""

from __future__ import annotations

import msgspec

from torchstone.core.schema.codec import decode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run import Line
from torchstone.core.schema.trial import Measurement, Outcome, Purpose, Stage, Trial


class Wanted(msgspec.Struct, frozen=True):
    """What is read: the trials of the Cases `whole`, and of the Cases `some` the raw values of `metrics`.

    A trial of one of `some` has no Series and no Measurements of other Metrics; trials of other Cases are left out.
    """

    whole: frozenset[str]
    some: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()


class _Whose(msgspec.Struct, frozen=True):
    record: str
    case_id: str = ""


class _Measured(msgspec.Struct, frozen=True):
    """A Measurement whose values are still text."""

    metric: str
    stage: Stage
    values: msgspec.Raw
    window: str | None = None
    phase: str | None = None
    rank: int = 0


class _Taken(msgspec.Struct, frozen=True):
    """A Trial whose Measurements are still text, without its Series."""

    trial_id: str
    case_id: str
    number: int
    order: int
    started_utc: str
    duration_s: float
    outcome: Outcome
    facts: Facts = msgspec.field(default_factory=Facts)
    measurements: tuple[_Measured, ...] = ()
    purpose: Purpose = Purpose.REPLICATE


def wanted_line(data: bytes, wanted: Wanted) -> Line | None:
    """Return the term of a line of a record as far as it is wanted; None for a trial that is not.

    Raises what `decode` does. What is passed over is only known to be JSON.
    """
    whose: _Whose = decode(data, _Whose)
    if whose.record != "trial" or whose.case_id in wanted.whole:
        line: Line = decode(data, Line)
        return line
    if whose.case_id not in wanted.some:
        return None
    if b'"nonfinite"' in data:  # which says where in the whole trial a value is NaN
        trial: Trial = decode(data, Trial)
        kept = tuple(one for one in trial.measurements if one.metric in wanted.metrics)
        return msgspec.structs.replace(trial, measurements=kept, series=())
    taken: _Taken = decode(data, _Taken)
    return Trial(
        taken.trial_id, taken.case_id, taken.number, taken.order, taken.started_utc, taken.duration_s, taken.outcome,
        taken.facts, tuple(_read(one) for one in taken.measurements if one.metric in wanted.metrics), (),
        taken.purpose,
    )  # fmt: skip


def _read(one: _Measured) -> Measurement:
    values: tuple[float, ...] = decode(bytes(one.values), tuple[float, ...])
    return Measurement(one.metric, one.stage, values, one.window, one.phase, one.rank)

"""A search for the best Configuration: what may be tried, what one probe asks for, and what it told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.quality import QualityVerdict
from torchstone.core.schema.trial import Status

PATIENCE_S = 600.0  # of trials, after which the searcher `adaptive` ends of its own accord if it has measured a step
Point = Mapping[str, Scalar]  # a value for each axis that varies


class Part(StrEnum):
    """What of a step a probe measures."""

    WHOLE = "whole"  # loader, transfer and device together: the only part whose value is the objective's
    DEVICE = "device"  # batches resident on the device: its own throughput; the loader's axes do not matter
    LOADER = "loader"  # the loader alone: the rate it delivers; the device's axes do not matter


class SearchProblem(msgspec.Struct, frozen=True):
    """What a searcher is given. `points` are all that may be tried; `axes` their values, in the user's order.

    `present` is the point the user has now, if it is known. `capacity_bytes` is what a trial's peak memory must stay
    below. `separable`: the objective is a rate, so DEVICE and LOADER can be probed too, and bound it from above.
    `most_cost_s` and `most_probes` bound the whole search.
    """

    axes: Mapping[str, tuple[Scalar, ...]]
    points: tuple[Point, ...]
    present: Point | None = None
    capacity_bytes: float | None = None
    separable: bool = True
    most_cost_s: float | None = None
    most_probes: int | None = None
    seed: int = 0


class Probe(msgspec.Struct, frozen=True):
    """One trial that a searcher asks for. `effort` is the share of a full window (1: as long as any other trial).

    `why` is told to the user: a few words, such as "the loader alone, 8 workers".
    """

    point: Point
    part: Part = Part.WHOLE
    effort: float = 1.0
    why: str = ""


class ProbeResult(msgspec.Struct, frozen=True):
    """What a probe told. `value`: higher is better; items/s for DEVICE and LOADER; None unless `status` is ok.

    `allowed`: it meets the user's constraints (memory, latency, …). `quality`: the verdict on what is not shown to be
    as good as eager mode in fp32, which has no value then. `wait_share` is the share of the window spent waiting for
    data, `retries` how often the allocator had to flush, `window_s` how long the window was: a short one tells less.
    """

    probe: Probe
    status: Status
    cost_s: float
    value: float | None = None
    peak_bytes: float | None = None
    wait_share: float | None = None
    step_s: float | None = None
    retries: float | None = None
    allowed: bool = True
    window_s: float | None = None
    quality: QualityVerdict | None = None

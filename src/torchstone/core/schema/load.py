"""What a load generator is told, and what it measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from torchstone.core.schema.facts import Facts

SINGLE_STREAM, MULTI_STREAM, OFFLINE, SERVER = "single_stream", "multi_stream", "offline", "server"
PERCENTILES_OF_SCENARIO = {SINGLE_STREAM: 0.90, MULTI_STREAM: 0.99, SERVER: 0.99}  # of MLPerf's rules
SEARCH = "goodput"  # the command of a run that looked for a rate
MLPERF_DURATION_S = 600.0  # the least of a submission

Tell = Callable[[int, float, float], None]  # steps, elapsed (s), time of a recent step (s)


class LoadPlan(msgspec.Struct, frozen=True):
    """How long queries arrive at least, the seed of their arrivals, and what a full batch took in the warm-up."""

    duration_s: float
    seed: int
    step_s: float


class LoadMeasured(msgspec.Struct, frozen=True):
    """Raw values by metric, facts, and when the load began and ended on the shared clock."""

    values: Mapping[str, Sequence[float]]
    facts: Facts
    begin_s: float
    end_s: float

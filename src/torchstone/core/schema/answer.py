"""Answers: what a run found, by its kind (tune, ab, diagnosis, training); and the specification of a tune."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Comparison
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.quality import Margin, QualityLoss
from torchstone.core.schema.training import Training


class Constraints(msgspec.Struct, frozen=True):
    """What a Configuration must keep to. `None` is no constraint; times are of a batch, in a closed loop or a step."""

    max_memory_bytes: float | None = None
    max_latency_s: float | None = None
    min_throughput: float | None = None
    effective_batch: int | None = None  # batch_size × grad_accumulation × world_size
    quality_margin: Margin = msgspec.UNSET  # that of the Procedure


class TuneSpec(msgspec.Struct, frozen=True):
    """What a tune looks for. `base` is a Case with a value for every axis; `axes` are those that vary."""

    objective: str  # throughput, latency, efficiency, energy or memory
    searcher: str
    base: Case
    axes: Mapping[str, tuple[Scalar, ...]]
    # What the user has now: of the axes that vary, and of others where it is not what `base` has.
    present: Mapping[str, Scalar] | None = None
    exclude: tuple[str, ...] = ()
    constraints: Constraints = Constraints()
    learning_rate_rule: str | None = None  # sqrt, linear: how the learning rate follows the effective batch
    most_cost_s: float | None = None
    most_probes: int | None = None
    final_trials: int = 3  # of each finalist


class Choice(msgspec.Struct, frozen=True):
    """One Case that an answer names, and what was measured of it. `trials`: replicates; 0: only probes."""

    case_id: str
    point: Mapping[str, Scalar]
    trials: int
    throughput: float | None = None
    memory_bytes: float | None = None
    memory_share: float | None = None  # of the device's memory
    utilization: float | None = None
    step_time_s: float | None = None
    latency_s: float | None = None
    energy_per_item_j: float | None = None
    efficiency: float | None = None  # items/s for each GB of memory
    throughput_low: float | None = None  # its 95 % confidence interval over trials; None where there is none
    throughput_high: float | None = None
    quality: QualityLoss | msgspec.UnsetType = msgspec.UNSET  # of what computes something else than eager mode in fp32


class TuneResult(msgspec.Struct, frozen=True, tag="tune", tag_field="kind"):
    """What a tune found. Ratios and rates with an interval come from the final round, not from the search."""

    recommended: Choice
    highest_throughput: Choice
    best_efficiency: Choice | None
    pareto: tuple[Choice, ...]  # throughput against memory: nothing in the final round beats one of these in both
    present: Choice | None
    gain: Estimate | None  # recommended ÷ present, of the objective (above 1 is better), over its rounds
    epoch_time_s: Estimate | None
    settings: Mapping[str, Scalar]  # what --apply writes
    why: tuple[Statement, ...]
    searched_s: float  # trial-seconds of all probes, without the final round
    everything_s: float | None  # what trying every point would have cost, estimated from the trials taken
    points: int
    probes: int
    tried: int  # how many of the points had a trial of whole steps
    untried: Mapping[str, tuple[Scalar, ...]] = {}  # the values of each axis that no such trial had
    objective: str | msgspec.UnsetType = msgspec.UNSET  # of its TuneSpec


class Course(msgspec.Struct, frozen=True):
    """The course of a live comparison: pairs of processes, the templates they were forked from, and its time.

    `measured_share`: of that time, what was measured turns; `threads_pinned`: the logical cores that a process had a
    thread bound to, the fewest of all processes, None where it was not asked for; `spent_s`: where the time went;
    `needed_s`: what the fewest pairs take, where they did not fit.
    """

    pairs: int
    templates: int
    elapsed_s: float
    stopped_because: str  # settled, budget, failed
    measured_share: float | None = None
    threads_pinned: int | None = None
    spent_s: Mapping[str, float] = {}
    needed_s: float | None = None


class AbResult(msgspec.Struct, frozen=True, tag="ab", tag_field="kind"):
    """What a live comparison found, and how it came to that."""

    comparison: Comparison
    course: Course


Answer = TuneResult | AbResult | Diagnosis | Training

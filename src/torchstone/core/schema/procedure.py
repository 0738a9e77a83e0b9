"""Procedure: how a Case is measured. Recorded with every run, the same for both sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from torchstone.core.schema.facts import Facts
from torchstone.core.schema.quality import Margin
from torchstone.core.schema.training import Fit

HEAPS = ("fixed", "huge", "default")
DISTURBED = ("replace", "keep")
DEVICE_SETTINGS = "device"  # of PyTorch and the process: what a device is faster with


class Procedure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a Case is measured. Times in seconds; `None` leaves the choice to detection."""

    trials: int | None = None  # fresh processes a case; None: until the intervals are narrow, or the time is over
    within_s: float | None = None  # most time of the whole run, everything included; None: by the number of its cases
    warmup: int | None = None  # least number of warm-up steps; None: detected, within warmup_budget_s
    warmup_budget_s: float = 3.0
    iterations: int | None = None  # exactly so many steady steps; None: the stopping rule decides
    epochs: int | None = None  # of a fit: most passes over the data, each of `iterations` steps where data has no end
    target: float | None = 0.01  # with `trials`: stop a window when the relative half-width of its mean is this small
    aim: float = 0.05  # without: a case gets no more trials when that of its throughput's interval is this small
    budget_s: float = 5.0  # most steady time of one window
    percentiles_s: float = 0.0  # a latency window may take so long, beyond its budget, to support its p95
    min_steps: int = 5
    timeout_s: float = 600.0
    # replace: trials that other work on the machine disturbed (core/stats/disturbance.py) are left out of estimates and
    # taken again where their number is open, within the time; keep: nothing is judged
    disturbed: str = "replace"
    seed: int = 0
    isolation: str = "auto"  # fork, spawn, program (somebody's own); auto takes fork where it is safe
    # fixed: glibc keeps what it has been given; huge: and asks for huge pages of it; default: as the system has it
    heap: str = "fixed"
    # OpenMP's threads stay on a logical core each; None: the command decides, False: they wander as the system likes
    pin_threads: bool | None = None
    # the logical cores of a trial: device (those next to it), node:N, a list 0-3,8; None: those of the command
    cpu_affinity: str | None = None
    settings: str | None = DEVICE_SETTINGS  # or torch: PyTorch's own; None: another tool's
    telemetry_period_s: float = 0.5  # 0 switches it off
    count_flops: bool = True
    phases: bool = True  # a pass of its own, after the measured windows, that tells where the time of a step goes
    time_limit_s: float | None = None  # of the whole run: what has not begun by then is left for `resume`
    foresee: bool = True  # skip trials that are bound to fail: more memory than there is, or than ran out before
    nvtx: bool = False  # ranges around steps and phases for NVIDIA's nsys, in the measured windows too
    fit: Fit | None = None  # train to an end instead of measuring windows
    profile: bool = False  # a torch.profiler trace of a few steps after the measured windows
    in_place: bool = False  # a program runs in the folder that it was typed in, not in a work folder of each trial
    quality_margin: Margin = msgspec.UNSET  # the loss of quality below which another runtime or format is as good
    let_finish: bool = False  # a program goes on to its own end after its window

    @property
    def in_rounds(self) -> bool:
        """Whether the number of trials follows from what they show (execution/controller/rounds.py)."""
        return self.trials is None and self.iterations is None and self.fit is None

    @property
    def repetitions(self) -> int:
        """How many trials are planned beforehand: as many as were asked for, or one a case and more by what they show.

        Where only the steps were given: three.
        """
        return self.trials or (1 if self.in_rounds else 3)


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

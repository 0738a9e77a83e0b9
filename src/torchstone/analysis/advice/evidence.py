"""Evidence: all that is known of one Case when its causes are looked for, measured or recorded. None: not measured."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.setting import Setting
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.figures import PHASE
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.host_profile import HostLine, HostProfile
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.phase import BACKWARD, DECODE, FORWARD, PHASES, PREFILL
from torchstone.core.schema.trial import Disturbance, Status

_COMPUTES = (PREFILL, DECODE, FORWARD, BACKWARD)


class Evidence(msgspec.Struct, frozen=True):
    """`figures`: of the whole step (core/schema/metric.py). Rates in items/s.

    device_rate: with batches that lie on the device. loader_rate: of the loader alone as it is set, loader_alone_rate
    with one process. larger: (batch size, median step in s) of a larger batch, small_s: the step of the present one
    just before; both with resident batches where a loader is in the way. look: of the step; loader_look: of the loader
    in the trial's own process. disturbance: what disturbed the trial of the whole step, each time it was taken.
    """

    case: Case
    figures: Mapping[str, float]
    facts: Facts = msgspec.field(default_factory=Facts)
    device: DeviceInfo | None = None
    cores: int | None = None
    heap: str = "fixed"
    device_rate: float | None = None
    loader_rate: float | None = None
    loader_alone_rate: float | None = None
    larger: tuple[int, float] | None = None
    small_s: float | None = None
    look: HostProfile | None = None
    loader_look: HostProfile | None = None
    host_s: Mapping[str, float] = {}
    disturbance: Disturbance | None = None

    @property
    def accelerator(self) -> bool:
        """Whether the device is not the CPU."""
        return self.case.placement.device != "cpu"

    @property
    def trains(self) -> bool:
        """Whether steps have a backward pass."""
        return self.case.workload.task == Task.TRAIN

    @property
    def batch_size(self) -> int:
        """Items of a batch."""
        return self._number("batch_size") or 1

    @property
    def items(self) -> int:
        """Items of a step."""
        return self.batch_size * (self._number("grad_accumulation") or 1)

    @property
    def known(self) -> Setting:
        """What is known beside the figures: what the Case has already is not advised."""
        look = self.loader_look
        return Setting(
            self.case.configuration, self.cores, self.accelerator, self.figures.get("device_utilization"),
            (self.device.precisions or None) if self.device is not None else None, self.facts, self.trains,
            look.at_work >= rules.LOADER_COMPUTES if look is not None else None, _reads(look),
        )  # fmt: skip

    def fixes(self, axis: str) -> bool:
        """Whether the user's own batches are used as they come, so that an axis can have no other value."""
        return self.known.fixes(axis)

    @property
    def workers(self) -> int:
        """Processes that load."""
        return self._number("num_workers")

    def _number(self, axis: str) -> int:
        """Return a count; 0 for what is none: a stranger's record may have any word there."""
        value = self.case.configuration.get(axis)
        return value if isinstance(value, int) and value > 0 else 0

    @property
    def step_s(self) -> float | None:
        """The mean step: by total time over all items, so that late batches count."""
        rate = self.figures.get("throughput")
        return self.items / rate if rate else self.figures.get("step_time_mean")

    @property
    def phases_s(self) -> Mapping[str, float]:
        """The mean time of each phase that was measured; nothing where they take no time."""
        found = {name: time_s for name in PHASES if (time_s := self.phase_s(name)) is not None}
        return found if sum(found.values()) > 0.0 else {}

    def phase_s(self, name: str) -> float | None:
        """Mean time of a phase of the step."""
        return self.figures.get(f"{PHASE}{name}_s")

    def share(self, *names: str) -> float:
        """The share of the step in these phases, by samples where their times are not known; 0 where neither is."""
        spent = self.phases_s or (self.look.phases if self.look is not None else {})
        return sum(spent.get(name, 0.0) for name in names) / sum(spent.values()) if spent else 0.0

    @property
    def computing(self) -> float:
        """The share of the step in the passes of the model."""
        return self.share(*_COMPUTES)

    def setting(self, axis: str) -> Scalar:
        """A value of the Configuration; None where the Case has no such axis."""
        return self.case.configuration.get(axis)

    @property
    def own_lines(self) -> tuple[HostLine, ...]:
        """The user's own lines of the step, those of its loading left out."""
        return tuple(line for line in self.look.lines if line.phase != "data") if self.look is not None else ()

    @property
    def overhead_s(self) -> float | None:
        """What a step costs whatever its batch, by two batch sizes: time = overhead + batch × slope."""
        small_s = self.small_s or self.step_s
        if self.larger is None or small_s is None:
            return None
        times = self.larger[0] / self.batch_size
        if times <= 1.0:
            return None
        return min(small_s, max(0.0, (times * small_s - self.larger[1]) / (times - 1.0)))


def _reads(look: HostProfile | None) -> bool | None:
    """Say whether a loader reads files: by calls, or by page faults of files that are mapped; None: not known."""
    if look is None or look.read_bytes is None:
        return None
    return look.read_bytes >= rules.LOADER_READS or look.major_faults >= 1.0


# ── from a record alone ─────────────────────────────────────────────────────────────────────────────────────


def recorded_step(run: RunSummary, case: CaseSummary) -> Evidence:
    """Return what the record says of a Case's own step. Host profile and parts alone are not in it."""
    facts = next((trial.facts for trial in case.trials if trial.outcome.status == Status.OK), Facts())
    cores = facts.logical_cores
    return Evidence(
        Case(case.workload, case.configuration, case.placement),
        {name: found.value for name, found in case.estimates.items()}, facts,
        run.machine.device(case.placement.device, case.placement.index),
        cores if isinstance(cores, int) else run.machine.host.logical_cores, run.procedure.heap,
    )  # fmt: skip


def recorded_evidence(run: RunSummary, case: CaseSummary) -> Evidence:
    """Return the same with the step of a larger batch, where the run has one."""
    return msgspec.structs.replace(recorded_step(run, case), larger=_larger(run, case))


def _larger(run: RunSummary, case: CaseSummary) -> tuple[int, float] | None:
    """Return (batch size, step in s) of the nearest recorded Case with a batch at least twice as large, else alike."""
    size = case.configuration.get("batch_size")
    found = []
    for other in run.cases:
        larger, rate = other.configuration.get("batch_size"), other.estimates.get("throughput")
        same = {**other.configuration, "batch_size": size} == dict(case.configuration)
        alike = same and other.workload == case.workload and other.placement == case.placement
        if not alike or rate is None or rate.value <= 0.0 or not isinstance(size, int) or not isinstance(larger, int):
            continue
        if larger >= 2 * size > 0:
            accumulation = other.configuration.get("grad_accumulation")
            times = accumulation if isinstance(accumulation, int) and accumulation > 0 else 1
            found.append((larger, larger * times / rate.value))
    return min(found, default=None)

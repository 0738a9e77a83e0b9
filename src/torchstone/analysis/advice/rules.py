"""The rules of a diagnosis: from which figure on something is a bottleneck, what is usually behind it, what to change.

Causes (causes.py) and what is read from curves, devices and memory (beside this file) use the same ones, so that one
threshold and one remedy hold for all. Shares of a step decide; what people usually aim at, in milliseconds and percent,
is told beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from torchstone.analysis.advice.choices import SAFE_SHARE
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.figures import PHASE
from torchstone.core.schema.advice import Remedy, Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.metric import BACKWARD, DECODE, FORWARD, PHASES, PREFILL
from torchstone.core.schema.trial import (
    Disturbance,
    Disturber,
    HostLine,
    HostProfile,
    Status,
    ended_well,
    is_of_busy_machine,
    replicates,
)

# What people usually aim at: rules of thumb, told beside what was measured; no choice is made by them.
DATA_S = 0.030  # of waiting for data in a step: more is much
UTILIZATION = (0.70, 0.95)  # of the time a device is in use
MEMORY = (0.60, 0.80)  # of a device's memory at the peak


class Setting(msgspec.Struct, frozen=True):
    """Of one Case; None is what is not known.

    `cores`: that its processes may use; `utilization`: of the device, 0 to 1; `native`: the number formats that its
    units for products take as they are; `facts`: of a trial; `loader_computes`: the loader is at work rather than
    waiting for its source, `loader_reads`: which is files.
    """

    configuration: Mapping[str, Scalar]
    cores: int | None = None
    accelerator: bool | None = None
    utilization: float | None = None
    native: tuple[str, ...] | None = None
    facts: Facts = msgspec.field(default_factory=Facts)
    trains: bool = False
    loader_computes: bool | None = None
    loader_reads: bool | None = None

    def fixes(self, axis: str) -> bool:
        """Whether the user's own batches are used as they come, so that an axis can have no other value."""
        return axis in self.facts.own_fixed

    @property
    def idles(self) -> bool:
        """Whether the device is in use less than is usual; not where its use is not known."""
        return self.utilization is not None and self.utilization < UTILIZATION[0]

    @property
    def idle(self) -> tuple[Statement, ...]:
        """That it is, with its use; nothing where it is not."""
        return (Statement("idle", {"share": self.utilization, "usual": UTILIZATION[0]}),) if self.idles else ()


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
    def circumstances(self) -> Setting:
        """What is known beside the figures: what the Case has already is not advised."""
        look = self.loader_look
        return Setting(
            self.case.configuration,
            self.cores,
            self.accelerator,
            self.figures.get("device_utilization"),
            (self.device.precisions or None) if self.device is not None else None,
            self.facts,
            self.trains,
            look.at_work >= LOADER_COMPUTES if look is not None else None,
            _reads(look),
        )

    def fixes(self, axis: str) -> bool:
        """Whether the user's own batches are used as they come, so that an axis can have no other value."""
        return self.circumstances.fixes(axis)

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
    return look.read_bytes >= LOADER_READS or look.major_faults >= 1.0


# ── from a record alone ─────────────────────────────────────────────────────────────────────────────────────


def recorded_step(run: RunSummary, case: CaseSummary) -> Evidence:
    """Return what the record says of a Case's own step. Host profile and parts alone are not in it."""
    facts = next((trial.facts for trial in case.trials if trial.outcome.status == Status.OK), Facts())
    cores = facts.logical_cores
    return Evidence(
        Case(case.workload, case.configuration, case.placement),
        {name: found.value for name, found in case.estimates.items()},
        facts,
        run.machine.device(case.placement.device, case.placement.index),
        cores if isinstance(cores, int) else run.machine.host.logical_cores,
        run.procedure.heap,
    )


def recorded_evidence(run: RunSummary, case: CaseSummary) -> Evidence:
    """Return the same with the step of a larger batch, where the run has one, and how busy others were beside it."""
    step, disturbance = recorded_step(run, case), None
    if is_of_busy_machine(replicates(ended_well(case.trials))):
        cores = step.figures.get("other_cpu_cores")
        disturbance = Disturbance(disturbed=True, share=1.0, causes=(Disturber.PROCESSES,), cores=cores)
    return msgspec.structs.replace(step, larger=_larger(run, case), disturbance=disturbance)


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


class Rule(msgspec.Struct, frozen=True):
    """One bottleneck. `least`: from here on it is one; of the step, where nothing else is said beside the rule.

    `usual`: ids of what is usually behind it. `changes`: what to change; what a Case has already is left out.
    """

    least: float
    usual: tuple[str, ...] | Callable[[Setting], Iterator[str]]
    changes: Callable[[Setting], Iterator[Remedy]]

    def causes(self, s: Setting) -> tuple[Statement, ...]:
        """Return what is usually behind it."""
        return tuple(map(Statement, self.usual if isinstance(self.usual, tuple) else self.usual(s)))

    def remedies(self, s: Setting, batch: int | None = None) -> tuple[Remedy, ...]:
        """Return what to change. `batch`: the size to name in place of "a larger batch"."""
        return tuple(
            Remedy("batch_size", {"batch_size": batch}, "batch_size")
            if batch is not None and one == LARGER_BATCH
            else one
            for one in self.changes(s)
        )


LOADER_COMPUTES = 0.5  # of a loader's time on a core, without what it waits for one: above, it computes
LOADER_READS = 4096  # bytes a batch: a loader that waits and reads less waits for something else
OTHER_WORK = Statement("other_work")

LARGER_BATCH = Remedy("larger_batch", axis="batch_size")
END_OTHERS = Remedy("end_others")
_BF16 = Remedy("bf16", axis="precision")
_COMPILED = Remedy("compile", axis="compile")
_WIDE = ("fp32", "tf32")  # number formats that a narrower one may take the place of
_WORKERS = (2, 4, 8, 12, 16)
_SMALL_BATCH = 8  # items of an update
_LARGE_MODEL = 100_000_000  # parameters


# ── what waits, or is copied ────────────────────────────────────────────────────────────────────────────────


def _loader_usual(s: Setting) -> Iterator[str]:
    yield from (*(("slow_disk",) if _waits_for_files(s) else ()), "few_workers", "costly_preprocessing")


def _waits_for_files(s: Setting) -> bool:
    """Say whether a loader waits for files, or may: not where it computes, sleeps or waits for what is no file."""
    return not s.loader_computes and s.loader_reads is not False


def _loader(s: Setting) -> Iterator[Remedy]:
    yield from more_workers(s)
    yield from _pinned(s)
    if _waits_for_files(s):
        yield Remedy("faster_disk")
    yield Remedy("less_preprocessing")
    yield _faster_cpu(s)


def _faster_cpu(s: Setting) -> Remedy:
    workers = s.configuration.get("num_workers")
    if isinstance(workers, int) and s.cores is not None and workers >= s.cores:
        return Remedy("faster_cpu_than_workers", {"workers": workers, "cores": s.cores})
    return Remedy("faster_cpu")


def more_workers(s: Setting) -> Iterator[Remedy]:
    """Yield how many processes may load: no more than there are cores, unless a loader is known to wait."""
    workers = s.configuration.get("num_workers")
    if s.fixes("num_workers"):
        yield Remedy("own_workers")
    elif workers is None:
        yield Remedy("more_workers", axis="num_workers")
    elif isinstance(workers, int):
        most = None if s.loader_computes is False else s.cores
        more = tuple(n for n in _WORKERS if n > workers and (most is None or n <= most))
        if more:
            yield Remedy("num_workers", {"workers": more}, "num_workers")


def _pinned(s: Setting) -> Iterator[Remedy]:
    if s.accelerator and s.configuration.get("pin_memory") is not True:
        yield Remedy("pin_memory", axis="pin_memory")


def _transfer(s: Setting) -> Iterator[Remedy]:
    yield from _pinned(s)
    yield from more_workers(s)


# ── what computes ───────────────────────────────────────────────────────────────────────────────────────────


def _computing_usual(s: Setting) -> Iterator[str]:
    yield "complex_model"
    if s.idles:
        yield "batch_too_small"
    elif not _is_small_batch(s):
        yield "large_batch"
    yield "inefficient_operations"
    if s.trains:
        yield "complex_backward"


def _computing(s: Setting) -> Iterator[Remedy]:
    yield from narrower(s)
    yield from _compiled(s)
    if s.configuration.get("channels_last") == "off":
        yield Remedy("channels_last", axis="channels_last")
    yield from _checkpointed(s)
    yield Remedy("lighter_model")


def narrower(s: Setting) -> Iterator[Remedy]:
    """Yield narrower number formats that the device is made for, or may be, as far as is known."""
    present = s.configuration.get("precision")
    if present in _WIDE and (s.native is None or "bf16" in s.native):
        yield _BF16
    if present == "fp32" and s.native is not None and "tf32" in s.native:
        yield Remedy("tf32", axis="precision")


def _compiled(s: Setting) -> Iterator[Remedy]:
    if s.configuration.get("compile") == "off":
        yield _COMPILED


def _checkpointed(s: Setting) -> Iterator[Remedy]:
    if s.trains and s.configuration.get("gradient_checkpointing") is False:
        yield Remedy("gradient_checkpointing", axis="gradient_checkpointing")


def _optimizer_usual(s: Setting) -> Iterator[str]:
    parameters = s.facts.parameters
    if parameters >= _LARGE_MODEL if isinstance(parameters, int | float) else not _is_small_batch(s):
        yield "large_model"
    yield from ("small_updates", "adamw")


def _is_small_batch(s: Setting) -> bool:
    """Say whether an update is shared by so few items that it takes its share of the step in a model of any size."""
    size, steps = (s.configuration.get(name) for name in ("batch_size", "grad_accumulation"))
    return isinstance(size, int) and size * (steps if isinstance(steps, int) else 1) <= _SMALL_BATCH


def _optimizer(s: Setting) -> Iterator[Remedy]:
    if _is_small_batch(s) and not s.fixes("batch_size"):
        yield LARGER_BATCH
        yield Remedy("grad_accumulation", axis="grad_accumulation")
    else:
        yield Remedy("larger_batch_or_accumulation", axis="grad_accumulation")
    fused = s.configuration.get("fused")
    if fused == "off" or (fused != "on" and s.facts.fused_optimizer is False):
        yield Remedy("fused", axis="fused")


# ── what does not depend on the batch ───────────────────────────────────────────────────────────────────────


def _fill(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield from _compiled(s)


def _fixed_cost(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield Remedy("fewer_waits")
    yield from _compiled(s) if s.accelerator is False else _graphs(s)
    if s.configuration.get("feed") == "loader":
        yield Remedy("work_in_workers")
    if s.accelerator:
        yield Remedy("use_cpu")


def _graphs(s: Setting) -> Iterator[Remedy]:
    if s.configuration.get("compile") != "reduce-overhead":
        yield Remedy("cuda_graphs", axis="compile")


def _little_gain(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield from _graphs(s)
    yield Remedy("libraries")
    yield Remedy("use_cpu")


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def _memory_usual(s: Setting) -> Iterator[str]:
    yield "large_batch"
    if s.trains:
        yield "activations"
    yield "large_model"


def _pressure_usual(s: Setting) -> Iterator[str]:
    yield from ("memory_pressure", "swapping", "access_patterns")
    if s.trains:
        yield "growth_of_backward"


def _less_memory(s: Setting) -> Iterator[Remedy]:
    yield Remedy("smaller_batch_accumulated" if s.trains else "smaller_batch", axis="batch_size")
    if s.configuration.get("precision") in _WIDE:
        yield _BF16  # half the bytes, whatever the device is made for
    yield from _checkpointed(s)
    yield Remedy("smaller_model")


LOADER = Rule(0.10, _loader_usual, _loader)
TRANSFER = Rule(0.10, ("pageable_memory",), _transfer)
COMPUTING = Rule(0.50, _computing_usual, _computing)
OPTIMIZER = Rule(0.20, _optimizer_usual, _optimizer)  # usually it is a small share
BETWEEN_PHASES = Rule(0.10, ("python_between", "synchronisation"), _fill)
NOT_FILLED = Rule(
    0.50, ("batch_too_small", "launches_between"), _fill
)  # of the device's idle time: a loader that takes so much explains it
# By a curve over batch sizes: 1 - throughput ÷ the highest, of which the fixed cost of a step has next to nothing.
FIXED_COST = Rule(0.30, ("fixed_overhead", "low_occupancy", "launch_overhead"), _fixed_cost)
LITTLE_GAIN = Rule(1.5, ("too_small_for_it",), _little_gain)  # times the CPU's throughput: below, it buys little
FULL_MEMORY = Rule(SAFE_SHARE, _memory_usual, _less_memory)  # of the device's memory, at the peak
PRESSURE = Rule(0.10, _pressure_usual, _less_memory)  # of the CPU time, spent by the kernel

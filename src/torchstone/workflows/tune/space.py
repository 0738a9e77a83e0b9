"""The space of a tune: which axes vary, which points there are, and the Case that a probe of a point becomes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from math import sqrt

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema import ranks
from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.axis import AXES, LOADER_AXES, AxisStage, Scalar, axes_of
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.request import without
from torchstone.core.schema.search import Part, Point, SearchProblem
from torchstone.plugins import registry
from torchstone.plugins.choices import axis_conflict
from torchstone.plugins.protocols import Engine

# sqrt: Krizhevsky (2014), "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997, keeps
#   the variance of a step; Hoffer et al. (2017), arXiv:1705.08741; for Adam derived by Malladi et al. (2022),
#   arXiv:2205.10287.
# linear: Goyal et al. (2017), "Accurate, large minibatch SGD", arXiv:1706.02677, keeps the step an item makes; for SGD.
LEARNING_RATE_RULES: Mapping[str, Callable[[float], float]] = {"sqrt": sqrt, "linear": float}
_DIGITS = 3  # more would feign a precision that no such rule has


def accumulation_for(batch_size: int, effective: int) -> int | None:
    """Return how many batches make up the effective batch; None where they do not divide it."""
    return effective // batch_size if batch_size <= effective and effective % batch_size == 0 else None


def learning_rate_for(rate: float, effective: int, new_effective: int, rule: str) -> float:
    """Return the learning rate at a new effective batch, given that of the old one, to 3 significant digits.

    The same effective batch keeps its rate, digit for digit. Raises UsageError for a rule that is none.
    """
    if rule not in LEARNING_RATE_RULES:
        raise unknown("learning rate rule", rule, LEARNING_RATE_RULES)
    if effective < 1 or new_effective < 1:
        raise UsageError(f"an effective batch of {min(effective, new_effective)}: must be 1 or more")
    if effective == new_effective:
        return rate
    return float(f"{rate * LEARNING_RATE_RULES[rule](new_effective / effective):.{_DIGITS}g}")


# What --apply writes of a Configuration: the settings of a training, not those of the measurement.
APPLIED = axes_of(AxisStage.BATCH, AxisStage.LOADER, AxisStage.MODEL, AxisStage.HOST, AxisStage.OPTIMIZER)
_BATCHES: tuple[Scalar, ...] = tuple(2**n for n in range(14))
_WORKERS = (0, 1, 2, 4, 8, 12, 16)


def usual_axes(
    task: str, device: DeviceInfo | None, cores: int | None, base: Mapping[str, Scalar], *, loads: bool
) -> dict[str, tuple[Scalar, ...]]:
    """Return the axes that a tune varies where nobody says otherwise: those that change the speed of the same work.

    `loads`: real data come through a loader; what is made on the spot has none that training would have.
    """
    engine: Engine = registry.load("engines", task)
    usual = usual_values(cores)
    axes = {"batch_size": usual["batch_size"]}
    if loads:
        axes["num_workers"] = usual["num_workers"]
        if device is not None and device.kind != "cpu":
            axes["pin_memory"] = (False, True)
    axes["precision"] = _precisions(device)
    return {name: values for name, values in axes.items() if name in engine.axes and name in base}


def usual_values(cores: int | None) -> dict[str, tuple[Scalar, ...]]:
    """Return the values that batch size and number of workers may have where nobody says others."""
    return {"batch_size": _BATCHES, "num_workers": tuple(n for n in _WORKERS if n <= max(4, 2 * (cores or 2)))}


def applied(configuration: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return what was measured of a training's settings: without a loader's, where none fed the steps."""
    fed = configuration.get("feed") == "loader"
    return {axis: configuration[axis] for axis in APPLIED if axis in configuration and (fed or axis not in LOADER_AXES)}


def _precisions(device: DeviceInfo | None) -> tuple[Scalar, ...]:
    if device is None or device.kind != "cuda":
        return ("fp32", "bf16")
    if int((device.compute_capability or "0").partition(".")[0]) >= 8:
        return ("fp32", "tf32", "bf16")
    return ("fp32", "fp16")  # before Ampere bf16 is emulated


class TuneSpace:
    """The points of a TuneSpec, and their Cases. Raises UsageError where no point is left."""

    def __init__(self, spec: TuneSpec) -> None:
        self.spec = spec
        self.axes = dict(spec.axes)
        self.points = tuple(self._points())
        fed = spec.base.configuration.get("feed") == "loader"
        is_program = spec.base.workload.is_program  # which is measured as a whole
        self._loader = not is_program and (fed or any(axis in self.axes for axis in LOADER_AXES))

    def brief(self, capacity_bytes: float | None, seed: int) -> SearchProblem:
        """Return what a searcher is given. `capacity_bytes`: what a trial's peak memory must stay below."""
        spec = self.spec
        now = {axis: value for axis, value in (spec.present or {}).items() if axis in self.axes}
        return SearchProblem(
            axes=self.axes,
            points=self.points,
            present=now if now in self.points else None,
            capacity_bytes=capacity_bytes,
            separable=self._loader and spec.objective in ("throughput", "efficiency"),
            most_cost_s=spec.most_cost_s,
            most_probes=spec.most_probes,
            seed=seed,
        )

    def case(self, point: Point, part: Part = Part.WHOLE) -> Case:
        """Return the Case of one probe: of the whole step, of the device with resident batches, or of the loader."""
        base, workload = self.spec.base, self.spec.base.workload
        configuration = {**base.configuration, **point}
        if workload.is_program:
            return Case(workload, configuration, base.placement)
        if part == Part.LOADER:
            loads: Engine = registry.load("engines", "load")
            kept = {name: value for name, value in configuration.items() if name in loads.axes}
            return Case(msgspec.structs.replace(workload, task=Task.LOAD), kept, base.placement)
        configuration.update(self._batch_rules(configuration))
        if part == Part.DEVICE:
            configuration.update({name: AXES[name].default for name in LOADER_AXES if name in configuration})
        configuration["feed"] = "loader" if self._loader and part == Part.WHOLE else "resident"
        return ranks.case_on_ranks(workload, configuration, base.placement)

    def present(self) -> Case | None:
        """Return the Case of what the user has now, with the accumulation and the learning rate that it has now."""
        if self.spec.present is None:
            return None
        base, feed = self.spec.base, "loader" if self._loader else "resident"
        if base.workload.is_program:
            return Case(base.workload, {**base.configuration, **self.spec.present}, base.placement)
        return ranks.case_on_ranks(
            base.workload, {**base.configuration, **self.spec.present, "feed": feed}, base.placement
        )

    def point_of(self, case: Case) -> Point:
        """Return the values of a Case on the axes that vary."""
        return {axis: case.configuration.get(axis) for axis in self.axes}

    def _points(self) -> list[Point]:
        everything = [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]
        kept = [point for point in everything if self._keeps_the_batch(point)]
        if not kept:
            wanted = self.spec.constraints.effective_batch
            sizes = ", ".join(map(str, self.axes.get("batch_size", (self.spec.base.configuration.get("batch_size"),))))
            raise UsageError(f"--effective-batch {wanted} is not a multiple of any batch size: {sizes}")
        # A condition may speak of an axis that does not vary.
        whole = ranks.possible([{**self.spec.base.configuration, **point} for point in kept])
        if not self.spec.base.workload.is_program and (
            why := [axis_conflict(configuration) for configuration in whole]
        ):
            if None not in why:
                raise UsageError(f"no setting is left: {why[0]}")
            whole = [configuration for configuration, reason in zip(whole, why, strict=True) if reason is None]
        full = without(whole, self.spec.exclude)
        return [{axis: configuration[axis] for axis in self.axes} for configuration in full]

    def _keeps_the_batch(self, point: Point) -> bool:
        wanted = self.spec.constraints.effective_batch
        whole = {**self.spec.base.configuration, **point}
        return wanted is None or accumulation_for(self._size(whole), wanted) is not None

    def _batch_rules(self, configuration: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the accumulation that keeps the effective batch, and the learning rate that goes with it."""
        if self.spec.base.workload.task != Task.TRAIN:
            return {}
        size, before = self._size(configuration), self.spec.base.configuration
        wanted = self.spec.constraints.effective_batch
        steps = accumulation_for(size, wanted) if wanted is not None else int(configuration["grad_accumulation"] or 1)
        found: dict[str, Scalar] = {"grad_accumulation": steps}
        if self.spec.learning_rate_rule is not None and "learning_rate" not in self.axes and steps is not None:
            start = {**before, **(self.spec.present or {})}
            effective = self._size(start) * int(start.get("grad_accumulation") or 1)
            rate = float(before["learning_rate"] or 0.0)
            found["learning_rate"] = learning_rate_for(rate, effective, size * steps, self.spec.learning_rate_rule)
        return found

    def keeps_the_batch(self, case: Case) -> bool:
        """Say whether a Case has the effective batch that was asked for; the present settings may have another."""
        wanted, configuration = self.spec.constraints.effective_batch, case.configuration
        return wanted is None or wanted == self._size(configuration) * int(configuration.get("grad_accumulation") or 1)

    @staticmethod
    def _size(configuration: Mapping[str, Scalar]) -> int:
        """Return how many items all ranks take together for one batch."""
        return ranks.world_size(configuration) * int(configuration["batch_size"] or 1)

"""From a tune's words to its TuneSpec: the workload, the axes that vary, the present settings, the constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema import ranks
from torchstone.core.schema.answer import Constraints, TuneSpec
from torchstone.core.schema.axis import AXES, LOADER_AXES, VARIANT_AXES, Scalar, axis_named
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.model import OwnData
from torchstone.core.schema.request import IN_HOST_MEMORY, PIN, notes
from torchstone.execution import plan
from torchstone.plugins import registry
from torchstone.plugins.choices import has_end
from torchstone.workflows.tune.answering import OBJECTIVES
from torchstone.workflows.tune.space import applied, usual_axes

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest


class TuneRequest(msgspec.Struct, frozen=True):
    """What a tune asks for. `fixed`: axes given on the command line with one value. `present`: what the user has now.

    `found`: what the file says that the answer is for; the axes that the workload lacks are not minded.
    `max_memory_share` is of the device's memory. `only`: nothing else varies.
    """

    run: RunRequest
    objective: str = "throughput"
    searcher: str = "adaptive"
    fixed: Mapping[str, Scalar] = {}
    present: Mapping[str, Scalar] = {}
    found: Mapping[str, Scalar] = {}
    only: tuple[str, ...] = ()
    constraints: Constraints = Constraints()
    max_memory_share: float | None = None
    learning_rate_rule: str | None = None
    most_cost_s: float | None = None
    most_probes: int | None = None


class TuneSketch:
    """A checked tune before it is known on which device. Raises UsageError for whatever is wrong with its words."""

    def __init__(self, request: TuneRequest) -> None:
        self.request = request
        checked_objective(request)
        self._asked = _one_workload(request.run.workloads)
        asked = self._asked
        single = {axis: values[0] for axis, values in asked.axes.items()}
        one = msgspec.structs.replace(asked, axes={axis: (value,) for axis, value in single.items()})
        # How soon an answer comes is a question about the model; how many come a second, about its data, too.
        self.sketch = plan.sketch(msgspec.structs.replace(one, fed=request.objective != "latency"))
        self.base = dict(self.sketch.configurations[0])
        for axis in (*request.present, *request.only):
            axis_named(axis, self.base, f"task {asked.task} and {asked.model}")
        self._own = OwnData()
        # Who asks which runtime is fastest has torch's own now.
        usual = {axis: AXES[axis].default for axis in VARIANT_AXES if len(asked.axes.get(axis, ())) > 1}
        self._now = {**usual, **{a: v for a, v in request.found.items() if a in self.base}, **request.present}

    @property
    def nodes(self) -> int:
        """On how many nodes of an allocation the largest point is."""
        return ranks.most_nodes({ranks.NODES: value} for value in self._asked.axes.get(ranks.NODES, ()))

    def held(self, placement: Placement) -> Placement:
        """Return the devices that the largest point has on a node."""
        searched = [{ranks.WORLD_SIZE: value} for value in self._asked.axes.get(ranks.WORLD_SIZE, ())]
        return ranks.widest(placement, (self.base, *searched))

    def take(self, data: OwnData) -> None:
        """Begin from the data that the user's own code brought: a loader's settings are what the user has now.

        Raises UsageError where what is to vary is fixed by them.
        """
        several = [axis for axis, values in self._asked.axes.items() if len(values) > 1]
        if both := [axis for axis in (*self.request.only, *several) if axis in data.fixed]:
            raise UsageError(f"{self.sketch.workload.model}: {both[0]} cannot vary: {data.why_text}; {plan.INSTEAD}")
        settled = plan.with_own_data(self.sketch, data).configurations[0]
        free = (*self.sketch.left_open, *several)
        self.base = data.fill(self.sketch.workload.task, settled, free)
        own = {axis: self.base[axis] for axis in free if axis in data.settings and axis in self.base}
        self._own, self._now = data, {**own, **self._now}

    def notes(self, placement: Placement) -> list[Finding]:
        """Return what is to be said of settings that have no effect on that device."""
        return notes([[{**self.base, **self._now, **self.request.fixed}]], [placement])

    def spec(self, placement: Placement, machine: Machine, trials: int) -> TuneSpec:
        """Return the TuneSpec on that device. `trials`: rounds of the final comparison."""
        request = self.request
        device = machine.device(placement.device, placement.index)
        real = self._own.is_data or has_end(self.sketch.workload.data)
        loads = real and self.base.get("feed") == "loader"
        axes = usual_axes(self._asked.task, device, machine.host.logical_cores, self.base, loads=loads)
        axes = {axis: values for axis, values in axes.items() if axis not in self._own.fixed}
        axes.update({axis: tuple(values) for axis, values in self._asked.axes.items() if len(values) > 1})
        if "precision" in axes:
            meant = (plan.on_device({"precision": value}, device)["precision"] for value in axes["precision"])
            axes["precision"] = tuple(dict.fromkeys(meant))
        axes = ranks.meant(axes, placement, machine)
        base = dict(plan.on_device({**self.base, **self._now, **request.fixed}, device))
        if placement.device in IN_HOST_MEMORY and PIN in base:
            axes.pop(PIN, None)  # torch pins nothing without an accelerator, whatever a file says
            base[PIN] = False
        # One value in a file is what the user has now; one value on the command line is to stay.
        varying = {
            axis: _with(values, base[axis])
            for axis, values in axes.items()
            if axis not in request.fixed and (not request.only or axis in request.only)
        }
        if missing := [axis for axis in request.only if axis not in varying]:
            usual = AXES[missing[0]].default
            raise UsageError(f"--only {missing[0]}: give its values, for example --axis {missing[0]}={usual},…")
        if any(axis in varying for axis in LOADER_AXES) and "feed" in base:
            base["feed"] = "loader"
        if request.objective == "latency" and "mode" in base:
            base["mode"] = "latency"
        elif "mode" in base:
            base["mode"] = "throughput"
        return TuneSpec(
            objective=request.objective,
            searcher=request.searcher,
            base=Case(self.sketch.workload, base, placement),
            axes=varying,
            present=self._present(varying, base, device),
            exclude=tuple(map(str, request.run.exclude)),
            constraints=constraints_of(request, device.memory_bytes if device is not None else None),
            learning_rate_rule=self._rule(),
            most_cost_s=request.most_cost_s,
            most_probes=request.most_probes,
            final_trials=trials,
        )

    def _present(
        self, varying: Mapping[str, Sequence[Scalar]], base: Mapping[str, Scalar], device: DeviceInfo | None
    ) -> Mapping[str, Scalar] | None:
        """Return what the user has now: as given, or the single values of the file; None where there is neither.

        Where `base` has another value than the user's file, given on the command line, the file's is in it too.
        """
        single = {axis: values[0] for axis, values in self._asked.axes.items() if len(values) == 1}
        said = {**single, **self._now}
        if not any(axis in said for axis in varying):
            return None
        present = plan.on_device({axis: said.get(axis, self.base[axis]) for axis in varying}, device)
        here = device is None or device.kind not in IN_HOST_MEMORY
        now = {axis: value for axis, value in plan.on_device(self._now, device).items() if here or axis != PIN}
        return {
            **present,
            **{axis: now[axis] for axis, value in applied(base).items() if now.get(axis, value) != value},
        }

    def _rule(self) -> str | None:
        """Return the rule of the learning rate, where there is a rate of the user's to follow it."""
        stated = "learning_rate" in self._asked.axes or "learning_rate" in self._now
        return self.request.learning_rate_rule if stated else None


def checked_objective(request: TuneRequest) -> None:
    """Raise UsageError for an objective or a searcher that there is not."""
    if request.objective not in OBJECTIVES:
        raise unknown("objective", request.objective, OBJECTIVES)
    registry.load("searchers", request.searcher)


def constraints_of(request: TuneRequest, memory_bytes: int | None) -> Constraints:
    """Return the limits, a share of the memory in bytes. Raises UsageError where it is not known how much there is."""
    constraints, share = request.constraints, request.max_memory_share
    if share is None:
        return constraints
    if memory_bytes is None:
        raise UsageError(f"--max-memory {100 * share:g}%: the device's memory is not known; write a size: 20GB")
    return msgspec.structs.replace(constraints, max_memory_bytes=share * memory_bytes)


def _with(values: Sequence[Scalar], present: Scalar) -> tuple[Scalar, ...]:
    """Return the values with the present one among them, in order where they have one."""
    if present in values:
        return tuple(values)
    every = (*values, present)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in every):
        return tuple(sorted(every, key=lambda value: float(value or 0)))
    return every


def _one_workload(workloads: Sequence[WorkloadRequest]) -> WorkloadRequest:
    """Return the one workload there is, or the one that trains."""
    training = [w for w in workloads if w.task == "train"]
    found = list(workloads) if len(workloads) == 1 else training
    if len(found) != 1:
        known = ", ".join(f"{w.task} {w.model}" for w in workloads)
        raise UsageError(f"tune takes one workload, this has {len(workloads)} ({known}): choose with --task")
    if found[0].task == Task.LOADGEN:
        raise UsageError(
            "task loadgen has no step to tune: tune task infer, then find its rate with torchstone goodput"
        )
    return found[0]

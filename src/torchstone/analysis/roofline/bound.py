"""What bounds a Case: the loader, a transfer, or on the device launches, arithmetic or memory, and for which share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.analysis.roofline.roofline import Ceilings, ceilings, in_cache
from torchstone.core.estimates import estimates
from torchstone.core.figures import ANATOMY_STEP, figures
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.peaks import Peaks
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status

LOADER, TRANSFER, COMMUNICATION = "loader", "transfer", "communication"
LAUNCH, COMPUTE, MEMORY = "launch", "compute", "memory"
UNKNOWN = "unknown"
_WORTH_SAYING = 0.001
_NEAR = 0.5  # of a limit: below it, the device is held up by none of them


class Bound(msgspec.Struct, frozen=True):
    """`what` bounds a step, the `share` of its time that it stands for, and the evidence, the strongest first.

    `shares` of a step: of loader, transfer and communication what was measured; of launch, compute and memory what
    they would take at the best rate of this device. `near`: how much of the limit is used (of compute the MFU); where
    it is small, kernels wait for something that no peak tells.
    """

    what: str
    share: float
    near: float
    evidence: tuple[Statement, ...]
    shares: Mapping[str, float]

    @property
    def is_near(self) -> bool:
        """Whether it is what holds the step up: a limit of which less than half is used holds up nothing."""
        return self.near >= _NEAR


def bound_of(case: Case, run: Run, peaks: Peaks | None = None) -> Bound | None:
    """Return what bounds a Case by its trials in a Run; by the Peaks given, else by those that the record carries.

    None where no trial tells the time of a step.
    """
    well = [trial for trial in run.of_case(case.case_id) if trial.outcome.status == Status.OK]
    found = estimates([figures(trial) for trial in well])
    threads = threads_of([trial.facts for trial in well])
    top = ceilings(run.head.machine, case.placement, case.configuration, threads, peaks=peaks)
    return bound({name: estimate.value for name, estimate in found.items()}, top)


def threads_of(facts: Sequence[Facts]) -> int | None:
    """Return the threads that the trials of a Case ran with, by their facts; None where they were not recorded."""
    return next((one.threads_in_effect for one in facts if one.threads_in_effect is not None), None)


def bound(values: Mapping[str, float], top: Ceilings) -> Bound | None:
    """Return what bounds a step with these figures under these ceilings; None without the time of a step.

    What was waited for is measured, and the rest of the step is the device's: it goes to the limit that comes nearest.
    """
    step_s = values.get("step_time_mean", values.get("latency_per_batch_mean_s"))
    if step_s is None or step_s <= 0.0:
        return None
    waits, limits = _waits(values), _limits(values, top, step_s)
    device = max(0.0, 1.0 - sum(waits.values()))
    nearest = max(limits, key=limits.__getitem__, default=UNKNOWN)
    candidates = {**waits, nearest: device}
    what = max(candidates, key=candidates.__getitem__)
    near = limits.get(what, 1.0 if what in waits else 0.0)
    said = {
        name: _said(name, values, top, step_s, share)
        for name, share in _ranked({**waits, **limits})
        if share >= _WORTH_SAYING
    }
    first = [said.pop(what)] if what in said else []
    if what in limits and near < _NEAR:
        first.append(Statement("no_limit_near", {"share": near}))
    if not limits:
        first.append(Statement("no_peaks"))
    return Bound(what, candidates[what], near, (*first, *said.values()), {**waits, **limits})


def _waits(values: Mapping[str, float]) -> dict[str, float]:
    anatomy_s = values.get(ANATOMY_STEP)
    waits = {LOADER: values["data_wait_share"]} if "data_wait_share" in values else {}
    for name in (TRANSFER, COMMUNICATION):
        spent_s = values.get(f"phase_{name}_s")
        if spent_s is not None and anatomy_s:
            waits[name] = spent_s / anatomy_s
    return waits


def _limits(values: Mapping[str, float], top: Ceilings, step_s: float) -> dict[str, float]:
    """Return the share of a step that each limit of the device would take at the best rate."""
    flops, traffic, operators = (
        values.get(name) for name in ("flops_per_step", "traffic_per_step_bytes", "operators_per_step")
    )
    peak = top.measured_flops or top.datasheet_flops
    found: dict[str, float] = {}
    if flops is not None and peak is not None:
        found[COMPUTE] = flops / peak / step_s
    if traffic is not None and top.measured_bandwidth is not None and not in_cache(traffic, top):
        found[MEMORY] = traffic / top.measured_bandwidth / step_s
    if operators is not None and top.launch_s is not None:
        found[LAUNCH] = operators * top.launch_s / step_s
    return found


def _ranked(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda pair: pair[1], reverse=True)


def _said(name: str, values: Mapping[str, float], top: Ceilings, step_s: float, share: float) -> Statement:
    of_step: dict[str, Scalar] = {"share": share, "step_s": step_s}
    if name in (LOADER, TRANSFER, COMMUNICATION):
        return Statement(f"bound_{name}", {"share": share})
    if name == COMPUTE:
        measured = top.measured_flops is not None
        need: dict[str, Scalar] = {
            "flops": values["flops_per_step"], "peak": top.measured_flops or top.datasheet_flops,
            "precision": top.precision,
        }  # fmt: skip
        return Statement("bound_compute" if measured else "bound_compute_datasheet", {**need, **of_step})
    if name == MEMORY:
        rate = top.measured_bandwidth
        return Statement("bound_memory", {"traffic_bytes": values["traffic_per_step_bytes"], "rate": rate, **of_step})
    operators = values["operators_per_step"]
    return Statement("bound_launch", {"operators": operators, "launch_s": top.launch_s, **of_step})

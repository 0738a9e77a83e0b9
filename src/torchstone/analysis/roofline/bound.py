"""What bounds a Case: the loader, a transfer, or on the device launches, arithmetic or memory, and for which share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.analysis.roofline.roofline import MEASURE_THEM, Ceilings, ceilings, in_cache
from torchstone.core.estimates import estimates
from torchstone.core.figures import ANATOMY_STEP, figures
from torchstone.core.schema.case import Case
from torchstone.core.schema.peaks import Peaks
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status
from torchstone.core.units import quantity

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
    evidence: tuple[str, ...]
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


def threads_of(facts: Sequence[Mapping[str, object]]) -> int | None:
    """Return the threads that the trials of a Case ran with, by their facts; None where they were not recorded."""
    return next((number for one in facts if isinstance(number := one.get("threads_in_effect"), int)), None)


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
    evidence = [
        _said(name, values, top, step_s, share)
        for name, share in _ranked({**waits, **limits})
        if share >= _WORTH_SAYING
    ]
    first = [line for line in evidence if line.startswith(what)]
    if what in limits and near < _NEAR:
        first.append(f"no limit is near: at peak rates this step would need {quantity(near, 'ratio')} of its time")
    if not limits:
        first.append(f"no peaks of this device are known: {MEASURE_THEM}")
    lines = dict.fromkeys((*first, *evidence))
    return Bound(what, candidates[what], near, tuple(lines), {**waits, **limits})


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


def _said(name: str, values: Mapping[str, float], top: Ceilings, step_s: float, share: float) -> str:
    percent, step = quantity(share, "ratio"), quantity(step_s, "s")
    if name == LOADER:
        return f"{name}: {percent} of the time is spent waiting for batches"
    if name in (TRANSFER, COMMUNICATION):
        return f"{name}: {percent} of a step"
    if name == COMPUTE:
        peak, whose = top.measured_flops, "measured"
        if peak is None:
            peak, whose = top.datasheet_flops, "of the datasheet"
        need = f"{quantity(values['flops_per_step'], 'FLOP')} at {quantity(peak, 'FLOP/s')} ({whose}, {top.precision})"
    elif name == MEMORY:
        rate = f"{quantity(top.measured_bandwidth, 'bytes')}/s"
        need = f"at least {quantity(values['traffic_per_step_bytes'], 'bytes')} at {rate}"
    else:
        need = f"{values['operators_per_step']:.0f} operators, {quantity(top.launch_s, 's')} each"
    return f"{name}: {need} would be {percent} of the step ({step})"

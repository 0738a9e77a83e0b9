"""How near a Case comes to what its device can do: MFU against two peaks, and the roofline.

Roofline: what a device can attain is the least of its peak and of intensity × bandwidth (Williams, Waterman &
Patterson, Communications of the ACM 52(4), 2009). MFU: model operations a second over the peak of that precision
(Chowdhery et al., PaLM, JMLR 24, 2023): recomputation is no model work, and a sparse peak is no peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core import datasheet
from torchstone.core.estimates import estimates
from torchstone.core.figures import ANATOMY_STEP, figures
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import COPY, LAUNCH, MATMUL, SUSTAINED, TRIAD, Machine, Peaks
from torchstone.core.schema.metric import Unit
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status

_KEPT = 2.0  # a step that moves less than so many times the last cache may live in it: memory is no limit then


class Ceilings(msgspec.Struct, frozen=True):
    """What bounds a Case from above on its device; what is not known, or not well, `missing` tells, with the reason.

    Rates in FLOP/s and bytes/s are of one device, as operations and traffic of a step are (figures.py reads rank 0).
    `measured_flops`: the best burst of products; `sustained_flops`: what an accelerator keeps up for seconds.
    `launch_s`: seconds an operator.
    """

    precision: str
    measured_flops: float | None = None
    measured_utc: str | None = None
    measured_bandwidth: float | None = None
    launch_s: float | None = None
    cache_bytes: int | None = None
    datasheet_flops: float | None = None
    datasheet_source: str | None = None
    missing: tuple[Statement, ...] = ()
    sustained_flops: float | None = None


def ceilings(
    machine: Machine,
    placement: Placement,
    configuration: Mapping[str, Scalar],
    threads: int | None,
    *,
    peaks: Peaks | None = None,
) -> Ceilings:
    """Return what bounds a Case: by the Peaks given, else by those that the Machine carries, and by the datasheet.

    `threads`: those that the Case ran with. On a CPU peaks of as many are wanted: others bound something else.
    """
    precision = str(configuration.get("precision") or "fp32")
    device = machine.device(placement.device, placement.index)
    if device is None:
        return Ceilings(precision, missing=(Statement("no_device", {"placement": str(placement)}),))
    own = peaks or machine.best(placement.device, placement.index, threads if placement.device == "cpu" else None)
    vendors = datasheet.dense_peak_flops(device.name, precision, device.memory_bytes)
    kept_up = own.value(SUSTAINED + precision) if own is not None else None
    missing = []
    if own is None:
        missing.append(_unmeasured(machine, placement, threads))
    elif own.value(MATMUL + precision) is None:
        missing.append(Statement("product_not_measured", {"precision": precision, "device": device.name}))
    elif placement.device == "cpu" and own.disturbed:
        missing.append(Statement("peaks_disturbed", {"device": device.name, "busy_cores": own.busy_cores}))
    elif placement.device != "cpu" and kept_up is None:
        missing.append(Statement("sustained_not_measured", {"precision": precision, "device": device.name}))
    if vendors is None:
        missing.append(Statement("no_datasheet", {"device": device.name, "precision": precision}))
    rates = [rate for name in (COPY, TRIAD) if own is not None and (rate := own.value(name)) is not None]
    flops = own.value(MATMUL + precision) if own is not None else None
    return Ceilings(
        precision,
        flops,
        own.measured_utc if own is not None else None,
        max(rates, default=None),
        own.value(LAUNCH) if own is not None else None,
        own.cache_bytes if own is not None else None,
        None if vendors is None else vendors.value,
        None if vendors is None else vendors.source,
        tuple(missing),
        kept_up,
    )


def _unmeasured(machine: Machine, placement: Placement, threads: int | None) -> Statement:
    others = machine.best(placement.device, placement.index)
    if others is not None:
        return Statement("peaks_of_other_threads", {"measured": others.threads, "threads": threads})
    return Statement("peaks_not_measured", {"placement": str(placement), "host": machine.host.hostname})


def in_cache(traffic_bytes: float | None, top: Ceilings) -> bool:
    """Say whether a step moves so little that it may live in the last cache."""
    return traffic_bytes is not None and top.cache_bytes is not None and traffic_bytes <= _KEPT * top.cache_bytes


def shares(estimates: Mapping[str, Estimate], top: Ceilings) -> dict[str, Estimate]:
    """Return mfu_datasheet, mfu_measured, mfu_sustained, roofline_share, those known, with the intervals of achieved.

    A peak is one number for all trials: dividing by it leaves an interval as it is. No share is cut at 1: more than
    that is impossible, and for the checks to say. But where data stays in caches the roofline's bandwidth bounds
    nothing: without a share below 1 there is none.
    """
    achieved = estimates.get("achieved_flops")
    if achieved is None:
        return {}
    found: dict[str, Estimate] = {}
    if top.datasheet_flops is not None:
        found["mfu_datasheet"] = _over(achieved, top.datasheet_flops, "of the datasheet's dense rate")
    if top.measured_flops is not None:
        found["mfu_measured"] = _over(achieved, top.measured_flops, "of the best measured matrix product (burst)")
        intensity, traffic = estimates.get("arithmetic_intensity"), estimates.get("traffic_per_step_bytes")
        attainable = top.measured_flops
        if intensity is not None and top.measured_bandwidth is not None and not in_cache(_value(traffic), top):
            attainable = min(attainable, intensity.value * top.measured_bandwidth)
        share = _over(achieved, attainable, "of the roofline")
        if share.value <= 1.0:
            found["roofline_share"] = share
    if top.sustained_flops is not None:
        found["mfu_sustained"] = _over(achieved, top.sustained_flops, "of the sustained matrix product")
    return found


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value


def _over(achieved: Estimate, peak: float, how: str) -> Estimate:
    return msgspec.structs.replace(
        achieved,
        value=achieved.value / peak,
        low=None if achieved.low is None else achieved.low / peak,
        high=None if achieved.high is None else achieved.high / peak,
        unit=str(Unit.RATIO),
        method=f"{achieved.method}, {how}",
    )


LOADER, TRANSFER, COMMUNICATION = "loader", "transfer", "communication"
LAUNCHES, COMPUTE, MEMORY = "launch", "compute", "memory"
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
    threads = trial_threads([trial.facts for trial in well])
    top = ceilings(run.head.machine, case.placement, case.configuration, threads, peaks=peaks)
    return bound({name: estimate.value for name, estimate in found.items()}, top)


def trial_threads(facts: Sequence[Facts]) -> int | None:
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
        name: _statement(name, values, top, step_s, share)
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
        found[LAUNCHES] = operators * top.launch_s / step_s
    return found


def _ranked(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda pair: pair[1], reverse=True)


def _statement(name: str, values: Mapping[str, float], top: Ceilings, step_s: float, share: float) -> Statement:
    of_step: dict[str, Scalar] = {"share": share, "step_s": step_s}
    if name in (LOADER, TRANSFER, COMMUNICATION):
        return Statement(f"bound_{name}", {"share": share})
    if name == COMPUTE:
        measured = top.measured_flops is not None
        need: dict[str, Scalar] = {
            "flops": values["flops_per_step"],
            "peak": top.measured_flops or top.datasheet_flops,
            "precision": top.precision,
        }
        return Statement("bound_compute" if measured else "bound_compute_datasheet", {**need, **of_step})
    if name == MEMORY:
        rate = top.measured_bandwidth
        return Statement("bound_memory", {"traffic_bytes": values["traffic_per_step_bytes"], "rate": rate, **of_step})
    operators = values["operators_per_step"]
    return Statement("bound_launch", {"operators": operators, "launch_s": top.launch_s, **of_step})

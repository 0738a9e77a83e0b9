"""How near a Case comes to what its device can do: MFU against two peaks, and the roofline.

Roofline: what a device can attain is the least of its peak and of intensity × bandwidth (Williams, Waterman &
Patterson, Communications of the ACM 52(4), 2009). MFU: model operations a second over the peak of that precision
(Chowdhery et al., PaLM, JMLR 24, 2023): recomputation is no model work, and a sparse peak is no peak.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core import datasheet
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.peaks import COPY, LAUNCH, MATMUL, SUSTAINED, TRIAD, Peaks
from torchstone.core.schema.quantity import Unit

_KEPT = 2.0  # a step that moves less than so many times the last cache may live in it: memory is no limit then
MEASURE_THEM = "measure them with `torchstone machine peaks` (half a minute)"


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
    missing: tuple[str, ...] = ()
    sustained_flops: float | None = None


def ceilings(
    machine: Machine, placement: Placement, configuration: Mapping[str, Scalar], threads: int | None, *,
    peaks: Peaks | None = None,
) -> Ceilings:  # fmt: skip
    """Return what bounds a Case: by the Peaks given, else by those that the Machine carries, and by the datasheet.

    `threads`: those that the Case ran with. On a CPU peaks of as many are wanted: others bound something else.
    """
    precision = str(configuration.get("precision") or "fp32")
    device = machine.device(placement.device, placement.index)
    if device is None:
        return Ceilings(precision, missing=(f"{placement} is not among the devices of this record's machine",))
    own = peaks or machine.best(placement.device, placement.index, threads if placement.device == "cpu" else None)
    vendors = datasheet.dense_peak_flops(device.name, precision, device.memory_bytes)
    kept_up = own.value(SUSTAINED + precision) if own is not None else None
    missing = []
    if own is None:
        missing.append(_unmeasured(machine, placement, threads))
    elif own.value(MATMUL + precision) is None:
        missing.append(f"no {precision} matrix product was measured on {device.name}")
    elif placement.device == "cpu" and own.disturbed:
        busy = f"other processes kept {own.busy_cores or 0.0:g} cores busy during their measurement"
        missing.append(f"the peaks of {device.name} may be higher: {busy}; `torchstone machine peaks --again`")
    elif placement.device != "cpu" and kept_up is None:
        told = f"the sustained {precision} rate of {device.name} was not measured, only bursts"
        missing.append(f"{told}: `torchstone machine peaks --again`")
    if vendors is None:
        missing.append(f"no vendor's figure is known for {device.name} in {precision}")
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


def _unmeasured(machine: Machine, placement: Placement, threads: int | None) -> str:
    others = machine.best(placement.device, placement.index)
    if others is not None:
        return f"peaks were measured with {others.threads} threads, but this ran with {threads}"
    return f"no peaks were measured of {placement} of {machine.host.hostname}: {MEASURE_THEM}"


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

"""Which of the measured Cases is fastest, which is most efficient, which to take, and which nothing beats.

Efficiency is items/s for each GB of memory among Cases within 95 % of the highest throughput: without that bound the
smallest batch always wins. A Case is safe when its measured peak leaves a tenth of the device's memory free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchstone.summary import CaseSummary
from torchstone.terms.answer import Choice
from torchstone.terms.machine import Machine
from torchstone.terms.trial import Purpose, Status

NEAR_THE_TOP = 0.95
SAFE_SHARE = 0.9
_GB = 1e9


def choice_of(case: CaseSummary, machine: Machine, axes: Iterable[str]) -> Choice:
    """Return what was measured of a Case, reduced to what a choice needs. `axes`: those that vary."""
    device = machine.device(case.placement.device, case.placement.index)
    memory = _value(case, "peak_reserved_bytes", "peak_allocated_bytes", "peak_rss_bytes")
    throughput = _value(case, "throughput")
    held = device.memory_bytes if device is not None else None
    return Choice(
        case_id=case.case_id,
        point={axis: case.configuration.get(axis) for axis in axes},
        trials=sum(t.outcome.status == Status.OK and t.purpose == Purpose.REPLICATE for t in case.trials),
        throughput=throughput,
        memory_bytes=memory,
        memory_share=memory / held if memory is not None and held else None,
        utilization=_value(case, "device_utilization"),
        step_time_s=_value(case, "step_time"),
        latency_s=_value(case, "latency_per_batch_p95_s", "latency_per_batch_p50_s"),
        energy_per_item_j=_value(case, "energy_per_item_j"),
        efficiency=throughput / (memory / _GB) if throughput is not None and memory else None,
    )


def _value(case: CaseSummary, *figures: str) -> float | None:
    return next((case.estimates[name].value for name in figures if name in case.estimates), None)


def highest_throughput(choices: Sequence[Choice]) -> Choice | None:
    """Return the fastest."""
    return max((c for c in choices if c.throughput is not None), key=lambda c: c.throughput or 0.0, default=None)


def best_efficiency(choices: Sequence[Choice]) -> Choice | None:
    """Return the one with most items/s for each GB among those within 95 % of the fastest."""
    top = highest_throughput(choices)
    if top is None or top.throughput is None:
        return None
    near = [c for c in choices if c.throughput is not None and c.throughput >= NEAR_THE_TOP * top.throughput]
    return max((c for c in near if c.efficiency is not None), key=lambda c: c.efficiency or 0.0, default=None)


def is_safe(choice: Choice) -> bool | None:
    """Return whether a tenth of the memory stays free at the peak; None where either is unknown."""
    return None if choice.memory_share is None else choice.memory_share <= SAFE_SHARE


def recommended(choices: Sequence[Choice]) -> Choice | None:
    """Return the fastest that is safe; the fastest of all where none is known to be."""
    return highest_throughput([c for c in choices if is_safe(c)]) or highest_throughput(choices)


def pareto(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return those that no other beats in both throughput and memory, by rising memory."""
    known = [c for c in choices if c.throughput is not None and c.memory_bytes is not None]
    front: list[Choice] = []
    for choice in sorted(known, key=lambda c: (c.memory_bytes or 0.0, -(c.throughput or 0.0))):
        if not front or (choice.throughput or 0.0) > (front[-1].throughput or 0.0):
            front.append(choice)
    return tuple(front)

"""Which of the measured Cases is fastest, which is most efficient, which to take, and which nothing beats.

What has an interval wider than ±50 % is not chosen from: it may be the fastest, or not. Nor is what computes something
else than eager mode in fp32, and is not shown to be as good.

Efficiency is items/s for each GB of memory among Cases within 95 % of the highest throughput: without that bound the
smallest batch always wins. A Case is safe when its measured peak leaves a tenth of the device's memory free. Of Cases
that are not significantly different and differ by 2 % at most, the one with the smaller memory is recommended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.quality import is_as_good
from torchstone.core.schema.answer import Choice
from torchstone.core.schema.axis import variant_name
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.trial import ended_well, estimation_trials
from torchstone.core.stats.comparing import log_mean, ratio_interval

NEAR_THE_TOP = 0.95
SAFE_SHARE = 0.9
AS_FAST = 0.98  # how much of the top throughput may be given up for memory where intervals see no difference
_GB = 1e9


class Chosen(msgspec.Struct, frozen=True):
    """The Cases worth naming among several. `front`: nothing measured beats one of these in speed and memory.

    `same`: not significantly different from the highest throughput, and within what (0.01: ±1 %), the fastest first.
    `wide`: what nothing is said of, since its trials differ too much.
    """

    highest_throughput: Choice
    best_efficiency: Choice | None
    recommended: Choice
    front: tuple[Choice, ...]
    same: tuple[tuple[Choice, float], ...] = ()
    wide: tuple[Choice, ...] = ()


def choose(choices: Sequence[Choice], rounds: InRounds | None = None) -> Chosen | None:
    """Return what to name among measured Cases; None where fewer than two have a throughput that is known well enough.

    See `unusable` for what is left out. `rounds`: the Cases of the choices, where one run measured them in turn.
    """
    if len({variant_name(choice.point) for choice in choices}) > 1:  # else how good it is was not for choice
        choices = [choice for choice in choices if is_as_good(choice.quality)]
    wide, choices = unusable(choices), [c for c in choices if not is_unusable(c)]
    highest, best = highest_throughput(choices), recommended(choices, rounds)
    if highest is None or best is None or sum(c.throughput is not None for c in choices) < 2:
        return None
    others = sorted((c for c in choices if c is not highest), key=lambda c: -(c.throughput or 0.0))
    same = tuple((c, within) for c in others if (within := same_within(highest, c, rounds)) is not None)
    return Chosen(highest, best_efficiency(choices), best, pareto(choices), same, tuple(wide))


def is_unusable(choice: Choice) -> bool:
    """Say whether its trials differ so much that its throughput is no ground for a choice."""
    return units.is_wide(choice.throughput or 0.0, choice.throughput_low, choice.throughput_high)


def unusable(choices: Sequence[Choice]) -> list[Choice]:
    """Return those whose trials differ too much, in the order in which they came."""
    return [choice for choice in choices if is_unusable(choice)]


def choice_of(case: CaseSummary, machine: Machine, axes: Iterable[str]) -> Choice:
    """Return what was measured of a Case, reduced to what a choice needs. `axes`: those that vary."""
    device = machine.device(case.placement.device, case.placement.index)
    memory = case.peak_memory_bytes
    rate = case.estimates.get("throughput")
    throughput = rate.value if rate is not None else None
    held = device.memory_bytes if device is not None else None
    return Choice(
        case_id=case.case_id,
        point={axis: case.configuration.get(axis) for axis in axes},
        trials=len(estimation_trials(ended_well(case.trials))),
        throughput=throughput,
        memory_bytes=memory,
        memory_share=memory / held if memory is not None and held else None,
        utilization=_value(case, "device_utilization"),
        step_time_s=_value(case, "step_time_mean"),
        latency_s=_value(case, "latency_per_batch_p95_s", "latency_per_batch_p50_s"),
        energy_per_item_j=_value(case, "energy_per_item_j"),
        efficiency=throughput / (memory / _GB) if throughput is not None and memory else None,
        throughput_low=rate.low if rate is not None else None,
        throughput_high=rate.high if rate is not None else None,
        quality=case.quality if case.quality is not None else msgspec.UNSET,
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


def same_within(a: Choice, b: Choice, rounds: InRounds | None = None) -> float | None:
    """Return x where the throughputs are the same within ±x (0.01: 1 %).

    None where the interval of their ratio leaves 1 out, and where one has no interval.
    """
    if rounds is not None and (paired := rounds.ratio(a.case_id, b.case_id)) is not None:
        _, low, high = paired
        return max(1.0 - low, high - 1.0) if low <= 1.0 <= high else None
    means = [log_mean(c.throughput or 0.0, c.throughput_low, c.throughput_high, c.trials) for c in (a, b)]
    if means[0] is None or means[1] is None:
        return None
    low, high = ratio_interval(means[0], means[1])
    return max(1.0 - low, high - 1.0) if low <= 1.0 <= high else None


def recommended(choices: Sequence[Choice], rounds: InRounds | None = None) -> Choice | None:
    """Return the fastest that is safe (of all, where none is known to be), or what is as fast with less memory."""
    among = [c for c in choices if is_safe(c)] or list(choices)
    top = highest_throughput(among)
    if top is None or top.throughput is None or top.memory_bytes is None:
        return top
    close = [c for c in among if (c.throughput or 0.0) >= AS_FAST * top.throughput]
    as_fast = [c for c in close if same_within(top, c, rounds) is not None]
    return min((c for c in as_fast if c.memory_bytes is not None), key=lambda c: c.memory_bytes or 0.0, default=top)


def pareto(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return those that no other beats in both throughput and memory, by rising memory."""
    known = [c for c in choices if c.throughput is not None and c.memory_bytes is not None]
    front: list[Choice] = []
    for choice in sorted(known, key=lambda c: (c.memory_bytes or 0.0, -(c.throughput or 0.0))):
        if not front or (choice.throughput or 0.0) > (front[-1].throughput or 0.0):
            front.append(choice)
    return tuple(front)

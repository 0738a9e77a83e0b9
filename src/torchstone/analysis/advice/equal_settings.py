"""An accelerator and the CPU, each at its fastest settings: which of these differ, and the ratio at equal ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchstone.analysis.advice.speed import times_as_fast, times_words
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.axis import Scalar, scalar_word

_NOT_THE_CPUS = ("pin_memory",)  # there is nothing to transfer to: it differs, and compares nothing


class Pair(NamedTuple):
    """The fastest Case of an accelerator and that of the CPU, at one batch size."""

    own: CaseSummary
    cpu: CaseSummary


def at_equal_settings(
    device: str, pairs: Mapping[int, Pair], own: Sequence[CaseSummary], cpu: Sequence[CaseSummary]
) -> Advice | None:
    """Return which settings differ, by batch size, and how many times as fast the accelerator is where both ran equal.

    `own`, `cpu`: all Cases of one workload on either. Equal settings are those of the accelerator's fastest Case and
    those of the CPU's; failing these, the accelerator's fastest of what both ran. None where no pair differs.
    """
    unlike = {size: axes for size, pair in pairs.items() if (axes := _differing(pair))}
    if not unlike:
        return None
    told: dict[str, list[int]] = {}
    for size, axes in unlike.items():
        told.setdefault(_against(pairs[size], axes), []).append(size)
    seen = f"{device} and the CPU are compared at the fastest settings of each, which differ: {_at_sizes(told)}"
    equal = {size: _equal_pairs(pairs[size], _measured(size, own), _measured(size, cpu)) for size in unlike}
    ratios = [
        f"{times_words(gain)} times as fast at batch_size {size} with {_named(pair.own.configuration, unlike[size])}"
        for size, found in equal.items() for pair in found if (gain := times_as_fast(*pair)) is not None
    ]  # fmt: skip
    seen += f"; at equal settings: {', '.join(ratios)}" if ratios else "; no equal settings were measured on both"
    lacking = [size for size, found in equal.items() if not found]
    return Advice(seen, (), tuple(_to_measure(pairs[size], unlike[size]) for size in lacking[-1:]))


def _differing(pair: Pair) -> list[str]:
    own, cpu = pair.own.configuration, pair.cpu.configuration
    axes = (axis for axis in dict.fromkeys((*own, *cpu)) if axis not in _NOT_THE_CPUS)
    return [axis for axis in axes if own.get(axis) != cpu.get(axis)]


def _equal_pairs(pair: Pair, own: Sequence[CaseSummary], cpu: Sequence[CaseSummary]) -> list[Pair]:
    ours, theirs = ({_settings(case): case for case in cases} for cases in (own, cpu))  # of equal ones the fastest
    both = [key for key in ours if key in theirs]
    chosen = [key for key in map(_settings, pair) if key in both]
    if both and not chosen:
        chosen = [max(both, key=lambda key: ours[key].estimates["throughput"].value)]
    return [Pair(ours[key], theirs[key]) for key in chosen]


def _measured(size: int, cases: Sequence[CaseSummary]) -> list[CaseSummary]:
    """Return those with a figure, the slowest first."""
    found = [case for case in cases if case.configuration.get("batch_size") == size and "throughput" in case.estimates]
    return sorted(found, key=lambda case: case.estimates["throughput"].value)


def _settings(case: CaseSummary) -> tuple[tuple[str, Scalar], ...]:
    items = (item for item in case.configuration.items() if item[0] not in _NOT_THE_CPUS)
    return tuple(sorted(items, key=lambda item: item[0]))


def _against(pair: Pair, axes: Sequence[str]) -> str:
    own, cpu = pair.own.configuration, pair.cpu.configuration
    return ", ".join(f"{axis} {scalar_word(own.get(axis))}, on the CPU {scalar_word(cpu.get(axis))}" for axis in axes)


def _at_sizes(told: Mapping[str, Sequence[int]]) -> str:
    return "; ".join(f"{words} (batch_size {', '.join(map(str, sizes))})" for words, sizes in told.items())


def _named(configuration: Mapping[str, Scalar], axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} {scalar_word(configuration.get(axis))}" for axis in axes)


def _to_measure(pair: Pair, axes: Sequence[str]) -> str:
    """Return what makes the next run hold both settings on both devices."""
    both = {axis: dict.fromkeys(scalar_word(case.configuration.get(axis)) for case in pair) for axis in axes}
    flags = " ".join(f"--axis {axis}={','.join(values)}" for axis, values in both.items())
    return f"{flags}, on both devices in one run"

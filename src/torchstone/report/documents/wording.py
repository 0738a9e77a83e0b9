"""Settings in words, the same in an answer, a block and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchstone.core.schema.axis import Scalar, scalar_word

__all__ = ["band", "differing", "point_words", "scalar_word"]


def point_words(point: Mapping[str, Scalar]) -> str:
    """Return settings as "batch_size 16, precision bf16"."""
    return ", ".join(f"{axis} {scalar_word(value)}" for axis, value in point.items())


def differing(points: Sequence[Mapping[str, Scalar]], other: Mapping[str, Scalar]) -> Sequence[Mapping[str, Scalar]]:
    """Return the settings of each point that another one has not.

    Where that would not tell points apart, each has what any of them has: "world_size 1" beside "world_size 1, strategy
    none" leaves open what the strategy of the first is.
    """
    found = [{axis: value for axis, value in point.items() if other.get(axis) != value} for point in points]
    if not any(a.items() < b.items() for a in found for b in found):
        return found
    axes = {axis for each in found for axis in each}
    return [{axis: value for axis, value in point.items() if axis in axes} for point in points]


def band(limits: tuple[float, float]) -> str:
    """Return "60 to 80 %"."""
    low, high = limits
    return f"{100 * low:.0f} to {100 * high:.0f} %"

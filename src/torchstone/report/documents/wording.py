"""Settings in words, the same in an answer, a block and a table."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.schema.axis import Scalar, scalar_word

__all__ = ["differing", "point_words", "scalar_word"]


def point_words(point: Mapping[str, Scalar]) -> str:
    """Return settings as "batch_size 16, precision bf16"."""
    return ", ".join(f"{axis} {scalar_word(value)}" for axis, value in point.items())


def differing(point: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return the settings of a point that another one has not."""
    return {axis: value for axis, value in point.items() if other.get(axis) != value}

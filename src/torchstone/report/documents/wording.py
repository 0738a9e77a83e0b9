"""Settings in words, the same in an answer, a block and a table."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.schema.axis import Scalar, scalar_word

__all__ = ["point_words", "scalar_word"]


def point_words(point: Mapping[str, Scalar]) -> str:
    """Return settings as "batch_size 16, precision bf16"."""
    return ", ".join(f"{axis} {scalar_word(value)}" for axis, value in point.items())

"""Settings in words, the same in an answer, a block and a table."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.schema.axis import Scalar


def scalar_word(value: Scalar) -> str:
    """Return a value as people type it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def point_words(point: Mapping[str, Scalar]) -> str:
    """Return settings as "batch_size 16, precision bf16"."""
    return ", ".join(f"{axis} {scalar_word(value)}" for axis, value in point.items())

"""Conditions on a Configuration, such as `batch_size>=1024,precision=fp32|tf32`: all comparisons must hold.

A comparison of an axis that a Configuration does not have does not hold: what is not there is not meant.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar, axis_named

_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGN = r"<=|>=|!=|==|=|<|>"
_COMPARISON = re.compile(rf"\s*(\w+)\s*({_SIGN})(.*)", re.ASCII | re.DOTALL)
_SIGNED = re.compile(rf"\s*({_SIGN})?(.*)", re.ASCII | re.DOTALL)
_FORM = "write AXIS=VALUE, AXIS=A|B, AXIS!=VALUE or AXIS>=VALUE, with commas between"


class AxisTest(msgspec.Struct, frozen=True):
    """One axis against one value, or (= and !=) several: `=` means one of them, `!=` none of them."""

    axis: str
    sign: str
    values: tuple[Scalar, ...]

    def holds(self, point: Mapping[str, Scalar]) -> bool:
        """Return whether the point has the axis and its value compares so."""
        if self.axis not in point:
            return False
        value = point[self.axis]
        if self.sign in _ORDER:
            bound = self.values[0]
            return isinstance(value, int | float) and _ORDER[self.sign](value, float(bound or 0))
        return (value in self.values) == (self.sign == "=")

    def __str__(self) -> str:
        return f"{self.axis}{self.sign}{'|'.join(map(str, self.values))}"


class Condition(msgspec.Struct, frozen=True):
    """Comparisons all of which must hold. Its text is parsed back to it."""

    comparisons: tuple[AxisTest, ...]

    def holds(self, point: Mapping[str, Scalar]) -> bool:
        """Return whether every comparison holds."""
        return all(comparison.holds(point) for comparison in self.comparisons)

    def __str__(self) -> str:
        return ",".join(map(str, self.comparisons))


def parse(text: str) -> Condition:
    """Return the Condition that a text spells. Raises UsageError naming the axis, the value and what is wrong."""
    matches = [_COMPARISON.fullmatch(part) for part in text.split(",")]
    if not all(matches):
        raise UsageError(f"'{text}' is not a condition: {_FORM}")
    return Condition(tuple(_comparison(m[1], m[2], m[3].split("|")) for m in matches if m is not None))


def comparison_of(axis: str, given: Scalar | Sequence[Scalar]) -> AxisTest:
    """Return the Comparison that a mapping's entry means: `1024`, `">=1024"`, `"a|b"` or a list. Raises UsageError."""
    if isinstance(given, str):
        match = _SIGNED.fullmatch(given)
        sign, words = (match[1] or "=", match[2].split("|")) if match is not None else ("=", [given])
        return _comparison(axis, sign, words)
    return _comparison(axis, "=", given if isinstance(given, Sequence) else [given])


def _comparison(axis: str, sign: str, words: Sequence[Scalar]) -> AxisTest:
    named = axis_named(axis)
    if not words:
        raise UsageError(f"axis {axis}: has no value to compare with")
    sign = "=" if sign == "==" else sign
    if sign in _ORDER and named.kind not in ("int", "float"):
        raise UsageError(f"axis {axis}: its values have no order; write {axis}=… or {axis}!=…")
    if sign in _ORDER and len(words) > 1:
        raise UsageError(f"axis {axis}: {sign} takes one value, not {'|'.join(map(str, words))}")
    return AxisTest(axis, sign, tuple(named.parse(word) for word in words))


def without(points: Sequence[Mapping[str, Scalar]], exclude: Iterable[Condition | str]) -> list[Mapping[str, Scalar]]:
    """Return the points that meet no condition, in their order.

    Raises UsageError where none is left, saying which condition removed how many.
    """
    left, removed = list(points), []
    for one in exclude:
        condition = parse(one) if isinstance(one, str) else one
        kept = [point for point in left if not condition.holds(point)]
        removed.append(f"{condition} removes {len(left) - len(kept)}")
        left = kept
    if not left:
        raise UsageError(f"none of {len(points)} settings is left: {'; '.join(removed)}")
    return left

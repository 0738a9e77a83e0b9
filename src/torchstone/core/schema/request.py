"""One workload as it is asked for: task, model, data and the values of the axes that vary, in the user's words.

A Condition on a Configuration, such as `batch_size>=1024,precision=fp32|tf32`, holds where all of its comparisons do. A
comparison of an axis that a Configuration does not have does not hold: what is not there is not meant.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.messages import Values
from torchstone.core.schema.axis import Scalar, axis_named
from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Finding, Severity

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


class WorkloadRequest(msgspec.Struct, frozen=True):
    """One workload in the user's words. `data` None leaves the choice to the model: synthetic, or its own example.

    `options` are the model's, `data_options` the data's. `axes`: their values, parsed (`axis_values`). `exclude`:
    Configurations that meet one of these are left out.

    `fed`: real data come through the loader whatever the task, as they do for training. Otherwise a question about
    inference (how soon does the model answer?) is one about the model: its batches are resident, and its table says so.
    """

    task: str
    model: str
    data: str | None = None
    options: Mapping[str, Scalar] = {}
    axes: Mapping[str, Sequence[Scalar]] = {}
    data_options: Mapping[str, Scalar] = {}
    exclude: Sequence[Condition] = ()
    fed: bool = False

    def excluding(self, exclude: Sequence[Condition]) -> WorkloadRequest:
        """Return it without the Configurations that meet one of these conditions."""
        return msgspec.structs.replace(self, exclude=exclude)


PIN = "pin_memory"
WITHOUT_EFFECT = "setting_without_effect"  # what the finding on it is called
IN_HOST_MEMORY = ("cpu", "mps")  # nothing is transferred to them


def effective(configurations: Sequence[Mapping[str, Scalar]], placement: Placement) -> Sequence[Mapping[str, Scalar]]:
    """Return Configurations as they are measured there: not pinned, where all ask for it and it has no effect.

    Where some ask for it and some do not, it is what the user asks about: all stay, and the device refuses with its
    reason what would be measured twice.
    """
    return [{**one, PIN: False} for one in configurations] if _in_vain(configurations, placement) else configurations


def notes(asked: Iterable[Sequence[Mapping[str, Scalar]]], placements: Sequence[Placement]) -> list[Finding]:
    """Return what a record says where `effective` changes any of these Configurations: one finding, or none."""
    every = list(asked)
    where = dict.fromkeys(p.device for p in placements if any(_in_vain(one, p) for one in every))
    if not where:
        return []
    values: Values = {"setting": f"{PIN}=true", "devices": tuple(where), "measured": f"{PIN}=false"}
    return [Finding(WITHOUT_EFFECT, Severity.INFO, "run", values, "pinned")]


def _in_vain(asked: Sequence[Mapping[str, Scalar]], placement: Placement) -> bool:
    return bool(asked) and placement.device in IN_HOST_MEMORY and all(one.get(PIN) is True for one in asked)

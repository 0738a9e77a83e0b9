"""Advice: what was seen, what usually causes it, and what to try that is not set already; in ids with values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from torchstone.core.schema.axis import Scalar

Value = Scalar | tuple["Scalar | Statement", ...]


class Statement(msgspec.Struct, frozen=True):
    """What is said: the id of a template (report/diagnosis_messages.py), and the values that its places name.

    The end of a value's name is its unit, as everywhere: `_s`, `_bytes`; shares are of 1.
    """

    id: str
    values: Mapping[str, Value] = {}


def unique(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return each of them once."""
    return tuple({str(one): one for one in statements}.values())


class Remedy(Statement, frozen=True):
    """What to change. `axis`: what is tried in its place where the engine has that axis."""

    axis: str | None = None


class Advice(msgspec.Struct, frozen=True):
    """One thing that measured values say. `remedies` leave out what the Case has already."""

    seen: tuple[Statement, ...]
    causes: tuple[Statement, ...] = ()
    remedies: tuple[Remedy, ...] = ()

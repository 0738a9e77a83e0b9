"""The codec: one term to JSON bytes and back, without loss, and the first look at a file that may be anything.

JSON has no NaN and no infinity, and a diverged loss is data. In their place stands null, and the list `nonfinite`
at the top of the line says where: `"nonfinite": [["measurements", 0, "values", 7, "nan"]]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.run import SCHEMA

T = TypeVar("T")
_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_OF_A_FINDING = {"check", "severity", "subject", "values", "reason"}
_BAD_INPUT = (msgspec.MsgspecError, ValueError, RecursionError)


class Malformed(UsageError):
    """Bytes that are not JSON at all: what a write that was cut off leaves behind."""


class Stamp(msgspec.Struct):
    """What every file of torchstone says first, read before anything else is believed."""

    record: str | None = None
    schema: int | None = None


def encode(term: Any) -> bytes:
    """Return a term (or a mapping of terms) as one line of JSON, without the newline. Non-finite floats survive."""
    plain: dict[str, Any] = msgspec.to_builtins(term)
    special = [[*path, word] for path, word in _special(plain, ())]
    if special:
        plain["nonfinite"] = special
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:  # a file name or an argument that is not UTF-8 must not cost the run its record
        return msgspec.json.encode(_speakable(plain))


def with_texts(term: Any) -> Any:
    """Return a term as plain data, each finding with its English texts beside its values: for programs that show it."""
    return _plain(msgspec.to_builtins(term))


def _plain(plain: Any) -> Any:
    if isinstance(plain, list | tuple):
        return [_plain(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    found = {key: _plain(one) for key, one in plain.items()}
    if found.keys() >= _OF_A_FINDING:
        finding = msgspec.convert(found, Finding)
        found |= {"message": finding.message, "advice": finding.advice}
    return found


def decode(data: bytes, kind: type[T] | Any) -> T:
    """Return the term that `data` spells. Raises Malformed if it is not JSON, UsageError if it is not that term."""
    try:
        if b'"nonfinite"' not in data:
            return msgspec.json.decode(data, type=kind)
        plain = msgspec.json.decode(data)
        return msgspec.convert(_restored(plain), type=kind)
    except _BAD_INPUT as fault:
        raise _named(fault) from None


def check_stamp(data: bytes, record: str, what: str) -> None:
    """Check that `data` begins a file of ours that this version can read; else raise UsageError saying what it is."""
    try:
        stamp = msgspec.json.decode(data, type=Stamp)
    except _BAD_INPUT as fault:
        if isinstance(named := _named(fault), Malformed):
            raise named from None
        raise UsageError(f"not a torchstone {what}") from None
    if stamp.record != record or stamp.schema is None or stamp.schema < 1:
        raise UsageError(f"not a torchstone {what}")
    check_schema(stamp.schema)


def check_schema(schema: int) -> None:
    """Raise UsageError for a schema that this version does not read, saying what does."""
    if schema != SCHEMA:
        reads = f"this torchstone reads schema {SCHEMA}"
        raise UsageError(f"of schema {schema}, {reads}: use the torchstone that wrote it, or a newer one")


def _named(fault: Exception) -> UsageError:
    if isinstance(fault, msgspec.ValidationError):
        return UsageError(f"does not match the schema: {fault}")
    if isinstance(fault, RecursionError):
        return UsageError("is nested too deeply")
    return Malformed(f"is not JSON: {fault}")


def _special(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path, str(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if inner.__class__ in (float, dict, list, tuple):
                yield from _special(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            if inner.__class__ is float:  # the raw values of a trial: most of a record, so no call for each
                if not math.isfinite(inner):
                    yield (*path, index), str(inner)
            elif inner.__class__ in (dict, list, tuple):
                yield from _special(inner, (*path, index))


def _restored(plain: Any) -> Any:
    notes = plain.pop("nonfinite", []) if isinstance(plain, dict) else []
    try:
        for *path, last, word in notes:
            place = plain
            for step in path:
                place = place[step]
            if place[last] is None:
                place[last] = _SPECIAL[word]
    except (KeyError, IndexError, TypeError, ValueError):
        raise msgspec.ValidationError("the list `nonfinite` names a place that is not there") from None
    return plain


def _speakable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_speakable(key): _speakable(inner) for key, inner in value.items()}
    return [_speakable(inner) for inner in value] if isinstance(value, list | tuple) else value

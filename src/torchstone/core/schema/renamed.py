"""Keys of records that older schemas wrote under other names: put right before a record is read."""

from __future__ import annotations

from typing import Any

import msgspec

# Up to schema 4: of a head, and of a tune in it. Neither key stands anywhere else in a record.
_NOW = {"quest": "tune", "contest": "ab", "duel_trials": "final_trials"}
_MARKS = (b'"quest":', b'"contest":')
_HEADLESS = (b'{"record":"trial"', b"[")  # most of a record: looking through it would take a third of its decoding


def in_present_words(data: bytes) -> bytes:
    """Return a line of a record, or a document, with the keys of this schema. Bytes that have them stay as they are.

    Raises what msgspec raises where a former key stands in what is not JSON.
    """
    if data.startswith(_HEADLESS) or not any(mark in data for mark in _MARKS):
        return data
    plain = msgspec.json.decode(data)
    if not isinstance(plain, dict):
        return data
    head = plain if plain.get("record") == "head" else plain.get("head")
    if not isinstance(head, dict):
        return data
    _rename(head)
    if isinstance(head.get("tune"), dict):
        _rename(head["tune"])
    for note in plain.get("nonfinite", ()):  # where in the line a value is NaN (codec.py): a path of keys
        if isinstance(note, list):
            note[:] = [_NOW.get(step, step) if isinstance(step, str) else step for step in note]
    return msgspec.json.encode(plain)


def _rename(keys: dict[str, Any]) -> None:
    for former, now in _NOW.items():
        if former in keys:
            keys.setdefault(now, keys.pop(former))

"""Addresses: what a page is asked for, read with bounds, and the shortest address that asks for it again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from urllib.parse import quote, urlencode

from torchstone.storage.catalogue import Key, Wanted

_LONGEST = 300  # characters of a value
_FILTERS = ("model", "device", "task", "verdict", "severity", "check", "since", "until")


class Query:
    """The part of an address behind the question mark. A value is cut to 300 characters."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple((name, value.strip()[:_LONGEST]) for name, value in pairs)

    def get(self, name: str) -> str:
        """Return the first value of that name; "" where there is none."""
        return next((value for key, value in self.pairs if key == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        """Return the values of that name, each once, empty ones left out."""
        return tuple(dict.fromkeys(value for key, value in self.pairs if key == name and value))

    def wanted(self) -> Wanted:
        """Return which rows are wanted. Days that are none are left out."""
        values = {name: self.get(name) for name in _FILTERS}
        return Wanted(
            **{**values, "text": self.get("q"), "since": _day(values["since"]), "until": _day(values["until"])}
        )

    def before(self) -> Key | None:
        """Return where the page before ended."""
        return Key.read(self.get("before"))

    @property
    def has_empty(self) -> bool:
        """Whether a form sent fields that were left empty, so that the address can be shorter."""
        return any(not value for _, value in self.pairs)

    def without_empty(self) -> list[tuple[str, str]]:
        """Return what is asked for, without what was left empty."""
        return [(name, value) for name, value in self.pairs if value]


def address(path: str, *pairs: tuple[str, str]) -> str:
    """Return an address that people can read: only what would break it is escaped."""
    return quote(path, safe="/") + (f"?{urlencode(pairs, safe=':~,/', quote_via=quote)}" if pairs else "")


def compare_address(run_ids: Sequence[str]) -> str:
    """Return /compare?a=…&b=…: the first run is the baseline."""
    return address("/compare", *zip("abcdefghijklmnopqrstuvwxyz", run_ids, strict=False))


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""

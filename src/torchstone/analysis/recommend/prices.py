"""What an hour of a device costs: a small table of the user's, in YAML, JSON, TOML or CSV, in one currency."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.source import MOST_BYTES, read_file
from torchstone.core.datasheet import folded
from torchstone.core.errors import UsageError

_COLUMNS = ("device", "price_per_hour", "currency")
_CURRENCY = re.compile(r"[A-Z]{3}")


class Prices(msgspec.Struct, frozen=True):
    """`per_hour`: price of an hour, by the device's name or a part of it, in `currency` (three letters, ISO 4217)."""

    currency: str
    per_hour: Mapping[str, float]
    source: str = ""

    def of(self, device: str) -> float | None:
        """Return the price of an hour of the device; of several parts of its name the longest counts. None: no price.

        Letters large or small are the same, and (R) and (TM) count as nothing. A part is of whole words: "A10" is not
        in "A100".
        """
        name = folded(device)
        fitting = [word for word in self.per_hour if _is_part(folded(word), name)]
        exact = next((word for word in fitting if folded(word) == name), None)
        best = exact or max(fitting, key=len, default=None)
        return self.per_hour[best] if best is not None else None


def _is_part(word: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", name) is not None


def read_prices(path: Path) -> Prices:
    """Read a price table. Raises UsageError naming file, place and what is wrong."""
    if path.suffix.lower() == ".csv":
        return _from_csv(path)
    source = read_file(path)
    data = source.data
    if strange := sorted(set(data) - {"currency", "prices"}):
        raise source.unknown_key((strange[0],), ("currency", "prices"))
    listed = data.get("prices")
    if not isinstance(listed, dict) or not listed:
        raise source.fault(("prices",), "must be a mapping of device names to prices per hour")
    found = {str(name): _price(value, source.at(("prices", name)), name) for name, value in listed.items()}
    return _table(data.get("currency"), found, source.at(("currency",)), str(path))


def _from_csv(path: Path) -> Prices:
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise UsageError(f"{path}: more than {MOST_BYTES} bytes is too large for a price table")
        rows = list(_rows(path, raw.decode("utf-8-sig")))
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as fault:
        raise UsageError(f"{path}: not a CSV file in UTF-8: {fault}") from None
    if not rows:
        raise UsageError(f"{path}: no prices; its columns must be {','.join(_COLUMNS)}")
    found: dict[str, float] = {}
    for place, (device, price, currency) in rows:
        if device in found:
            raise UsageError(f"{place}: duplicate device {device!r}")
        if currency != rows[0][1][2]:
            raise UsageError(f"{place}: currency {currency!r} beside {rows[0][1][2]!r}: use one currency per table")
        found[device] = _price(price, place, device)
    return _table(rows[0][1][2], found, rows[0][0], str(path))


def _rows(path: Path, text: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(f"{path}:1: column {missing[0]!r} is missing; the columns are {','.join(_COLUMNS)}")
    for row in reader:
        yield f"{path}:{reader.line_num}", tuple((row[name] or "").strip() for name in _COLUMNS)  # type: ignore[misc]


def _price(value: Any, place: str, device: str) -> float:
    try:
        price = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        price = math.nan
    if not 0.0 < price < math.inf:
        raise UsageError(f"{place}: the price of {str(device)!r} is {value!r}, not a number above 0")
    if not str(device).strip():
        raise UsageError(f"{place}: a price without a device's name")
    return price


def _table(currency: Any, prices: Mapping[str, float], place: str, source: str) -> Prices:
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        raise UsageError(f"{place}: currency is {currency!r}; write its three letters: EUR, USD, …")
    return Prices(currency, prices, source)

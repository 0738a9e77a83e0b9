"""What an hour of a device and a kilowatt-hour cost, and its carbon: a table that its user keeps.

YAML, JSON or TOML; the prices of devices as CSV, too. Every value has the date and the source it was taken from: a
price without them cannot be checked later, and is refused.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.source import MOST_BYTES, ConfigFile, KeyPath, read_file
from torchstone.core.datasheet import folded
from torchstone.core.errors import UsageError

_KEYS = ("currency", "date", "source", "provider", "prices", "electricity", "carbon")
_OFFER_KEYS = ("device", "price_per_hour", "provider", "date", "source")
_COLUMNS = ("device", "price_per_hour", "currency", "date", "source")
_CURRENCY = re.compile(r"[A-Z]{3}")
_MOST_TEXT = 300
_KWH = {"electricity": {"/kWh": 1.0, "/MWh": 1e-3}, "carbon": {"g/kWh": 1.0, "kg/kWh": 1e3, "kg/MWh": 1.0}}


class HourlyPrice(msgspec.Struct, frozen=True):
    """What an hour of one device costs at a provider ("" if nobody is named), as of a date (ISO 8601), and says who."""

    device: str
    per_hour: float
    date: str
    source: str
    provider: str = ""


class PerKilowattHour(msgspec.Struct, frozen=True):
    """A price (`unit`: a currency) or carbon intensity (`unit`: g, of CO₂ equivalent) of a kilowatt-hour."""

    value: float
    unit: str
    date: str
    source: str


class Prices(msgspec.Struct, frozen=True):
    """`offers` in `currency` (three letters, ISO 4217); electricity and carbon where the file has them."""

    currency: str | None
    offers: tuple[HourlyPrice, ...] = ()
    electricity: PerKilowattHour | None = None
    carbon: PerKilowattHour | None = None

    def of(self, device: str) -> HourlyPrice | None:
        """Return the lowest offer for a device, by its name or a part of it; None: no price."""
        return min(self.all_of(device), key=lambda offer: offer.per_hour, default=None)

    def all_of(self, device: str) -> tuple[HourlyPrice, ...]:
        """Return the offers for a device, in the order of the file; of several parts of its name the longest counts.

        Letters large or small are the same, and (R) and (TM) count as nothing. A part is of whole words: "A10" is not
        in "A100".
        """
        name = folded(device)
        fitting = dict.fromkeys(one.device for one in self.offers if _is_part(folded(one.device), name))
        exact = next((word for word in fitting if folded(word) == name), None)
        best = exact or max(fitting, key=len, default=None)
        return tuple(one for one in self.offers if one.device == best)


def _is_part(word: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", name) is not None


def read_prices(path: Path) -> Prices:
    """Read a table. Raises UsageError naming file, place and what is wrong."""
    if path.suffix.lower() == ".csv":
        return _from_csv(path)
    source = read_file(path)
    data = source.data
    if strange := sorted(set(data) - set(_KEYS)):
        raise source.unknown_key((strange[0],), _KEYS)
    electricity, carbon = _per_kwh(source, "electricity", "price"), _per_kwh(source, "carbon", "intensity")
    if "prices" not in data:
        if electricity is None and carbon is None:
            raise source.fault((), "no prices, no electricity and no carbon: nothing to reckon with")
        return Prices(None, (), electricity, carbon)
    return Prices(_currency(source), _offers(source), electricity, carbon)


def with_electricity(prices: Prices | None, other: Prices) -> Prices:
    """Return the prices with electricity and carbon of another table, where that has them."""
    mine = prices or Prices(None)
    return msgspec.structs.replace(
        mine, electricity=other.electricity or mine.electricity, carbon=other.carbon or mine.carbon
    )


# ── YAML, JSON, TOML ────────────────────────────────────────────────────────────────────────────────────────


def _currency(source: ConfigFile) -> str:
    found = source.data.get("currency")
    if found is None:
        raise source.fault((), "the prices have no currency; add its three letters: currency: EUR")
    if not isinstance(found, str) or not _CURRENCY.fullmatch(found):
        raise source.fault(("currency",), f"is {found!r}; write its three letters: EUR, USD")
    return found


def _offers(source: ConfigFile) -> tuple[HourlyPrice, ...]:
    listed = source.data["prices"]
    if not isinstance(listed, dict | list) or not listed:
        raise source.fault(("prices",), "must be a mapping of device names to prices per hour, or a list of offers")
    found: list[HourlyPrice] = []
    for key, told in listed.items() if isinstance(listed, dict) else enumerate(listed):
        path: KeyPath = ("prices", key)
        row = dict(told) if isinstance(told, dict) else {"price_per_hour": told}
        if isinstance(key, str):
            row.setdefault("device", key)
        elif not isinstance(told, dict):
            raise source.fault(path, f"must be {{{', '.join(_OFFER_KEYS)}}}")
        if strange := sorted(set(row) - set(_OFFER_KEYS)):
            raise source.unknown_key((*path, strange[0]), _OFFER_KEYS)
        offer = _offer({**_common(source), **row}, source.at(path))
        if any((one.device, one.provider) == (offer.device, offer.provider) for one in found):
            raise UsageError(f"{source.at(path)}: duplicate device {offer.device!r}: name each one's provider")
        found.append(offer)
    return tuple(found)


def _common(source: ConfigFile) -> Mapping[str, Any]:
    """Return what the file says once for all its prices."""
    return {name: source.data[name] for name in ("date", "source", "provider") if name in source.data}


def _offer(row: Mapping[str, Any], place: str) -> HourlyPrice:
    device = str(row.get("device") or "").strip()
    if not device:
        raise UsageError(f"{place}: a price without a device's name")
    price = _number(row.get("price_per_hour"))
    if price is None:
        raise UsageError(f"{place}: the price of {device!r} is {row.get('price_per_hour')!r}, not a number above 0")
    date, source = _dated(row, place, f"the price of {device!r}")
    provider = _short(str(row.get("provider") or "").strip(), place)
    return HourlyPrice(_short(device, place), price, date, source, provider)


def _per_kwh(source: ConfigFile, name: str, value_key: str) -> PerKilowattHour | None:
    told = source.data.get(name)
    if told is None:
        return None
    keys = (value_key, "unit", "date", "source")
    if not isinstance(told, dict):
        raise source.fault((name,), f"must be {{{', '.join(keys)}}}")
    if strange := sorted(set(told) - set(keys)):
        raise source.unknown_key((name, strange[0]), keys)
    value, unit = _number(told.get(value_key)), str(told.get("unit", ""))
    if value is None:
        raise source.fault((name, value_key), f"is {told.get(value_key)!r}, not a number above 0")
    place = source.at((name,))
    date, said = _dated(told, place, name)
    for words, factor in _KWH[name].items():
        shown = unit.removesuffix(words) if name == "electricity" else "g"
        if unit.endswith(words) and (unit == words if name == "carbon" else _CURRENCY.fullmatch(shown)):
            return PerKilowattHour(value * factor, shown, date, said)
    written = "EUR/kWh" if name == "electricity" else "g/kWh or kg/MWh"
    raise source.fault((name, "unit"), f"is {unit!r}; write {written}")


def _number(value: Any) -> float | None:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if 0.0 < number < math.inf else None


def _dated(row: Mapping[str, Any], place: str, what: str) -> tuple[str, str]:
    """Return date and source. Raises UsageError where one is missing: what was true when, and who says so."""
    date, source = str(row.get("date") or "").strip(), str(row.get("source") or "").strip()
    if not date:
        raise UsageError(f"{place}: {what} has no date: add date: YYYY-MM-DD, the day it was looked up")
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        raise UsageError(f"{place}: {what} has the date {date!r}; write YYYY-MM-DD") from None
    if not source:
        raise UsageError(f"{place}: {what} has no source: add source: the page, contract or bill it is from")
    return date, _short(source, place)


def _short(text: str, place: str) -> str:
    if len(text) > _MOST_TEXT:
        raise UsageError(f"{place}: more than {_MOST_TEXT} characters: {text[:40]!r}…")
    return text


# ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────────────


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
    currency = rows[0][1]["currency"]
    if not _CURRENCY.fullmatch(currency):
        raise UsageError(f"{rows[0][0]}: currency is {currency!r}; write its three letters: EUR, USD")
    return Prices(currency, _offers_in(rows, currency))


def _offers_in(rows: Sequence[tuple[str, Mapping[str, str]]], currency: str) -> tuple[HourlyPrice, ...]:
    found: list[HourlyPrice] = []
    for place, row in rows:
        if row["currency"] != currency:
            raise UsageError(f"{place}: currency {row['currency']!r} beside {currency!r}: use one currency per table")
        offer = _offer(row, place)
        if any((one.device, one.provider) == (offer.device, offer.provider) for one in found):
            raise UsageError(f"{place}: duplicate device {offer.device!r}: name each one's provider")
        found.append(offer)
    return tuple(found)


def _rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(f"{path}:1: column {missing[0]!r} is missing; the columns are {','.join(_COLUMNS)}")
    for row in reader:
        yield f"{path}:{reader.line_num}", {n: (row.get(n) or "").strip() for n in (*_COLUMNS, "provider")}

"""The only formatter of quantities: a value and its unit in, a short text out. Missing is a dash, never 0."""

from __future__ import annotations

import math
import re

from torchstone.core.errors import UsageError

_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)
_SHARE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", re.ASCII)


def duration_s(value: object, where: str = "") -> float:
    """Return a duration in seconds: a number, or a text like 30s, 5m, 1h, 500ms. Raises UsageError, naming `where`."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is not None and match[2].lower() in _SECONDS:
        return float(match[1]) * _SECONDS[match[2].lower()]
    return _number(value, where, "a duration: write 500ms, 30s, 5m or 1h")


def share(value: object, where: str = "") -> float:
    """Return a share as a ratio between 0 and 1: "1%" → 0.01, 0.01 → 0.01. Raises UsageError, naming `where`."""
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        value = float(match[1]) / (100.0 if match[2] else 1.0)
    number = _number(value, where, "a share: write 1% or 0.01")
    if not 0.0 < number < 1.0:
        raise UsageError(f"{where + ': ' if where else ''}{number:g} is not between 0 and 1: write 1% or 0.01")
    return number


def _number(value: object, where: str, wanted: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    raise UsageError(f"{where + ': ' if where else ''}{value!r} is not {wanted}")


_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")),
    "FLOP/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "W": ((1.0, "W"), (1e-3, "mW")),
}
MISSING = "–"
_MOST_DECIMALS = 4  # of a ratio: a hundredth of a percent
WIDEST = 0.5  # of a value: half an interval that is wider says little more than the order of magnitude


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """Return (divisor, name) of the unit in which `value` reads best: 0.0042 s → (0.001, "ms")."""
    steps = _STEPS.get(unit)
    if steps is None:
        return (0.01, "%") if unit == "ratio" else (1.0, "" if unit in ("count", "number") else unit)
    limit = abs(value) * (1.0 + 1e-9)
    if unit == "s" and limit < 120.0:  # 90 s reads better than 1.5 min
        steps = steps[1:]
    return next((step for step in steps if limit >= step[0]), steps[-1])


def factors() -> dict[str, float]:
    """Return how many of its base unit each name stands for, for who sorts what was formatted: "ms" → 0.001."""
    return {"%": 0.01, "×": 1.0, **{name: factor for steps in _STEPS.values() for factor, name in steps}}


def significant(value: float, digits: int) -> str:
    """Return `value` with that many significant digits, without an exponent where it reads well: 1234.6, 3 → 1235."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """Return a quantity as a person writes it: 0.00421, "s" → "4.21 ms"; None → "–"."""
    if value is None:
        return MISSING
    if unit == "ratio":
        return f"{100.0 * value:.1f} %" if abs(value) < 10.0 else f"{value:.3g}×"
    divisor, name = scale_of(value, unit)
    return f"{significant(value / divisor, digits)} {name}".rstrip()


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in percent: 0.05 → "5 %"."""
    return f"{share:.{decimals}%}".replace("%", " %")


def half_of_value(value: float, low: float | None, high: float | None) -> float | None:
    """Return the larger half of an interval relative to its value (0.012: ±1.2 %); None where there is none."""
    if low is None or high is None or value == 0:
        return None
    return max(high - value, value - low) / abs(value)


def is_wide(value: float, low: float | None, high: float | None) -> bool:
    """Say whether there is an interval, and it is too wide (over ±50 %) to be shown, or to choose anything by."""
    half = half_of_value(value, low, high)
    return half is not None and not half <= WIDEST


def spread(value: float, low: float | None, high: float | None) -> str:
    """Return the half-width of an interval relative to its value: "±1.2 %", "" without one, a dash for a wide one."""
    half = half_of_value(value, low, high)
    if half is None:
        return ""
    return MISSING if is_wide(value, low, high) else f"±{100.0 * half:.1f} %"


def interval(value: float, low: float | None, high: float | None, unit: str) -> str:
    """Return the ends of an interval: "4.1 ms, 4.4 ms", "" without one, a dash for one that is too wide."""
    if low is None or high is None:
        return ""
    return MISSING if is_wide(value, low, high) else f"{quantity(low, unit)}, {quantity(high, unit)}"


def ends(low: float, high: float, value: float, unit: str) -> str:
    """Return an interval behind its value: "[4.1, 4.4]" of 4.2 ms, "[990 µs, 1.1 ms]" of 1.05 ms."""
    divisor, name = scale_of(value, unit)
    if unit != "ratio" and scale_of(low, unit)[1] == scale_of(high, unit)[1] == name:
        return f"[{significant(low / divisor, 3)}, {significant(high / divisor, 3)}]"
    return f"[{quantity(low, unit)}, {quantity(high, unit)}]"


def ratio(value: float, low: float | None, high: float | None) -> str:
    """Return a ratio with its interval: "1.30 [1.24, 1.36]", "1.3" without one.

    It has so many decimals that the ends differ from it, and from 1.
    Of one too wide to be shown: the bound that holds, "at least 1.6", "at most 0.4", or a dash where it holds 1.
    """
    if low is None or high is None:
        return f"{value:.3g}"
    if is_wide(value, low, high):
        return f"at least {low:.3g}" if low > 1.0 else f"at most {high:.3g}" if high < 1.0 else MISSING
    told = [f"{each:.3g}" for each in (value, low, high)]
    if 1e-4 <= value < 1e7:
        decimals = max(0, 2 - math.floor(math.log10(value)))
        pairs = [(value, low), (value, high), (1.0, low), (1.0, high)]
        apart = [(a, b) for a, b in pairs if not math.isclose(a, b, rel_tol=1e-5)]
        while decimals < _MOST_DECIMALS and any(round(a, decimals) == round(b, decimals) for a, b in apart):
            decimals += 1
        told = [f"{each:,.{decimals}f}" for each in (value, low, high)]
    return f"{told[0]} [{told[1]}, {told[2]}]"


def change(value: float) -> str:
    """Return a ratio as a change in percent: 1.031 → "+3.1 %"."""
    return f"{100.0 * (value - 1.0):+.1f} %"


def plain(text: object) -> str:
    """Return text of one line without what could steer a terminal: each such character is U+FFFD."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def cut(text: str, most: int) -> str:
    """Return at most so many characters, the last one then an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"

"""Expectations: each a sentence and a function of a step's figures, and what is said of it when figures are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

Figure = bool | int | float | str | None
Figures = Mapping[str, Figure]


class Verdict(StrEnum):
    """What is said of an expectation."""

    OK = "ok"
    FAILED = "FAILED"
    NO_FIGURE = "no figure"  # the step ended before it, or the machine does not tell
    NOTED = "noted"  # a figure that nothing is expected of
    NOT_HERE = "not here"
    OPEN = "to do"


@dataclass(frozen=True)
class Expectation:
    """What is expected of the figure `name`.

    `holds` is given all figures of the step, that one among them; None: the figure is noted only. `optional`: a machine
    may lack it, and then nothing is said. `named`: only of devices whose name holds that word; `kinds`: only of those.
    """

    name: str
    says: str
    holds: Callable[[Figures], bool] | None
    unit: str = ""
    optional: bool = False
    named: str = ""
    kinds: tuple[str, ...] = ()

    def concerns(self, kind: str, device_name: str) -> bool:
        """Say whether this is expected of a device of that kind and name."""
        return (not self.kinds or kind in self.kinds) and self.named.lower() in device_name.lower()

    def of(self, named: str = "", kinds: tuple[str, ...] = ()) -> Expectation:
        """Return the same, expected of these devices only."""
        return replace(self, named=named, kinds=kinds)

    def if_told(self) -> Expectation:
        """Return the same, said of nothing where the machine does not tell the figure."""
        return replace(self, optional=True)


@dataclass(frozen=True)
class Judged:
    """One expectation with its figure in words."""

    says: str
    figure: str
    verdict: Verdict


def judge(expects: tuple[Expectation, ...], figures: Figures, kind: str, device_name: str) -> list[Judged]:
    """Return what is said of each expectation that concerns a device, in the sheet's order."""
    told = [_judged(one, figures) for one in expects if one.concerns(kind, device_name)]
    return [one for one in told if one is not None]


def _judged(one: Expectation, figures: Figures) -> Judged | None:
    value = figures.get(one.name)
    if value is None:
        return None if one.optional or one.holds is None else Judged(one.says, "–", Verdict.NO_FIGURE)
    if one.holds is None:
        return Judged(one.says, shown(value, one.unit), Verdict.NOTED)
    try:
        good = one.holds(figures)
    except (TypeError, KeyError):  # a figure of another type than was asked for, or the one it is held against
        return Judged(one.says, shown(value, one.unit), Verdict.NO_FIGURE)
    return Judged(one.says, shown(value, one.unit), Verdict.OK if good else Verdict.FAILED)


# ── the sentences ───────────────────────────────────────────────────────────────────────────────────────────


def noted(name: str, unit: str = "") -> Expectation:
    """Expect nothing of a figure."""
    return Expectation(name, name, None, unit)


def equal(name: str, wanted: Figure) -> Expectation:
    """Expect one value."""
    return Expectation(name, f"{name} = {shown(wanted, '')}", lambda f: f[name] == wanted)


def one_of(name: str, *wanted: Figure) -> Expectation:
    """Expect one of several values."""
    words = " or ".join(shown(one, "") for one in wanted)
    return Expectation(name, f"{name} = {words}", lambda f: f[name] in wanted)


def between(name: str, low: float, high: float, unit: str = "") -> Expectation:
    """Expect a number of an interval, its ends included."""
    says = f"{name} {shown(low, '')} to {shown(high, unit)}"
    return Expectation(name, says, lambda f: low <= _number(f, name) <= high, unit)


def near_one(name: str, share: float) -> Expectation:
    """Expect a ratio that is 1 but for that share."""
    return Expectation(name, f"{name} 1 ± {100 * share:g} %", lambda f: abs(_number(f, name) - 1.0) <= share)


def at_most(name: str, most: float, unit: str = "") -> Expectation:
    """Expect no more than that."""
    return Expectation(name, f"{name} ≤ {shown(most, unit)}", lambda f: _number(f, name) <= most, unit)


def at_least(name: str, least: float, unit: str = "") -> Expectation:
    """Expect no less than that."""
    return Expectation(name, f"{name} ≥ {shown(least, unit)}", lambda f: _number(f, name) >= least, unit)


def not_above(name: str, other: str, times: float = 1.0, unit: str = "") -> Expectation:
    """Expect no more than another figure of the step, or that many times it."""
    factor = f"{times:g} × " if times != 1.0 else ""
    return Expectation(
        name, f"{name} ≤ {factor}{other}", lambda f: _number(f, name) <= times * _number(f, other), unit
    )  # fmt: skip


def not_below(name: str, other: str, times: float = 1.0, unit: str = "") -> Expectation:
    """Expect no less than another figure of the step, or that many times it."""
    factor = f"{times:g} × " if times != 1.0 else ""
    return Expectation(
        name, f"{name} ≥ {factor}{other}", lambda f: _number(f, name) >= times * _number(f, other), unit
    )  # fmt: skip


def holds(name: str, low: str, high: str, truth: float) -> Expectation:
    """Expect that an interval, told by two other figures, holds the truth."""
    return Expectation(
        name, f"{name}: its interval holds {truth:g}", lambda f: _number(f, low) <= truth <= _number(f, high)
    )  # fmt: skip


def _number(figures: Figures, name: str) -> float:
    value = figures[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is no number")
    return float(value)


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))
_SCALED = ("s", "bytes", "bytes/s", "FLOP/s", "Hz", "J", "W", "items/s", "tokens/s")


def shown(value: Figure, unit: str) -> str:
    """Return a figure as the table has it: 4.31 Tbytes/s, 1.003, yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, str):
        return value or "–"
    if unit in _SCALED and value:
        size, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= s), (1e-9, "n"))
        return f"{value / size:.4g} {prefix}{unit}"
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f"{text} {unit}".rstrip()

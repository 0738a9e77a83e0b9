"""Estimates over batch sizes as curves: a curve a device, or of one device a curve a setting, failures in their place.

Points are joined only where no batch size lies between that another curve of the panel was tried at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.charts.palette import colours, short_names
from torchstone.core.charts.picture import Coordinate, Failure, Interval, Kind, Line, Mark, Panel
from torchstone.core.schema.axis import followers, scalar_word
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.trial import Status

MOST_CURVES = 8  # of a panel: colours that can be told apart
_MOST_NAMED = 2  # curves that are named where they failed
_MOST_UPRIGHT = 34  # characters that stand upright in a panel
WIDE = "±50 % or more"
_X = "batch size"


class Placed(msgspec.Struct, frozen=True):
    """A Case whose batch size is a number, what its device is called, and that number."""

    device: str
    size: int
    case: CaseSummary


class Named(msgspec.Struct, frozen=True):
    """Cases of one workload, by the panel they stand in and the curve they belong to. `order`: of all curves."""

    panels: Mapping[str, Mapping[str, tuple[Placed, ...]]]
    order: tuple[str, ...]
    left_out: int = 0  # curves beyond those that can be told apart

    @property
    def sizes(self) -> int:
        """How many batch sizes there are."""
        return len({one.size for curves in self.panels.values() for own in curves.values() for one in own})


def placed(cases: Sequence[CaseSummary], name_of: Callable[[CaseSummary], str]) -> list[Placed]:
    """Return the Cases that have a number as their batch size. `name_of`: what the device of a Case is called."""
    return [
        Placed(name_of(case), size, case) for case in cases
        if isinstance(size := case.configuration.get("batch_size"), int) and not isinstance(size, bool)
    ]  # fmt: skip


def named(cases: Sequence[Placed], rank: Callable[[CaseSummary], float]) -> Named:
    """Return the Cases of one workload as curves: of several devices a panel a setting, of one a curve a setting.

    `rank`: of more than MOST_CURVES curves in a panel, those whose Cases have the highest stay, in their order.
    """
    devices = short_names(one.device for one in cases)
    settings = short_names(_settings(cases))
    several = len(devices) > 1
    found: dict[str, dict[str, dict[int, Placed]]] = {}
    for one, setting in zip(cases, _settings(cases), strict=True):
        device, words = devices[one.device], settings[setting]
        panel, curve = (words, device) if several else ("", words or device)
        found.setdefault(panel, {}).setdefault(curve, {}).setdefault(one.size, one)
    alone = "".join(devices.values())
    kept = {panel: _best(curves, rank) for panel, curves in found.items()}
    shown = {curve for curves in kept.values() for curve in curves}
    every = devices.values() if several else (words or alone for words in settings.values())
    order = tuple(curve for curve in every if curve in shown)
    lost = sum(len(curves) for curves in found.values()) - sum(map(len, kept.values()))
    return Named(kept, order, lost)


def _best(
    curves: Mapping[str, Mapping[int, Placed]], rank: Callable[[CaseSummary], float]
) -> dict[str, tuple[Placed, ...]]:
    ranked = sorted(curves, key=lambda name: max(rank(one.case) for one in curves[name].values()), reverse=True)
    kept = set(ranked[:MOST_CURVES])
    return {name: tuple(own[size] for size in sorted(own)) for name, own in curves.items() if name in kept}


def _settings(cases: Sequence[Placed]) -> list[str]:
    """Return in words what sets each Case apart from the others, beside device and batch size.

    What follows the batch size, as a learning rate, counts only where one batch size was tried with several.
    """
    following = followers("batch_size")
    told = _apart(cases, following)
    keys = Counter((one.device, one.size, words) for one, words in zip(cases, told, strict=True))
    return told if max(keys.values(), default=1) == 1 else _apart(cases, ())


def _apart(cases: Sequence[Placed], aside: Sequence[str]) -> list[str]:
    axes = dict.fromkeys(axis for one in cases for axis in one.case.configuration)
    varying = [
        axis for axis in axes
        if axis not in ("batch_size", *aside) and len({str(one.case.configuration.get(axis)) for one in cases}) > 1
    ]  # fmt: skip
    return [", ".join(_word(axis, one.case) for axis in varying) for one in cases]


def _word(axis: str, case: CaseSummary) -> str:
    value = case.configuration.get(axis)
    alone = isinstance(value, str) and value not in ("on", "off", "auto")
    return str(value) if alone else f"{axis} {scalar_word(value)}"


# ── a panel ─────────────────────────────────────────────────────────────────────────────────────────────────


def panels(
    title: str, told: Named, of: Callable[[CaseSummary], Estimate | None], unit: str = "", group: str = ""
) -> Iterator[Panel]:
    """Yield a panel for each set of curves that has a value. `unit`: what y counts; "": that of the estimates."""
    for where, curves in told.panels.items():
        known = [e for own in curves.values() for one in own if (e := of(one.case)) is not None]
        if known:
            alone = "".join(curves) if len(curves) == 1 < len(told.order) else ""  # such a panel has no legend
            heading = ", ".join(filter(None, (title, where, alone)))
            yield _panel(heading, curves, told, of, _scale(known, unit), interval_words(known), group)


def _scale(known: Sequence[Estimate], unit: str) -> tuple[float, str]:
    """Return divisor and unit in which the greatest of the values reads well."""
    if unit:
        return 1.0, unit
    return units.scale_of(max(abs(one.value) for one in known), known[0].unit)


def _panel(
    title: str, curves: Mapping[str, Sequence[Placed]], told: Named, of: Callable[[CaseSummary], Estimate | None],
    scale: tuple[float, str], subtitle: str, group: str,
) -> Panel:  # fmt: skip
    places = tuple(str(size) for size in sorted({one.size for own in curves.values() for one in own}))
    values: list[Mapping[str, Any]] = []
    lost: dict[str, dict[str, str]] = {}
    for curve, own in curves.items():
        piece, before = 0, -1
        for one in own:
            found = of(one.case) if one.case.verdict != Verdict.INVALID else None
            at = places.index(str(one.size))
            if found is None or found.is_wide:
                if (why := WIDE if found is not None else failure_of(one.case)) is not None:
                    lost.setdefault(str(one.size), {})[curve] = why
                continue
            piece += at != before + 1
            before = at
            values.append({"batch": str(one.size), "curve": curve, "piece": piece, **_ends(found, scale[0])})
    y = Coordinate("value", scale[1])
    marks: list[Mark] = [Line(y, piece="piece"), Interval(y)]
    failed = tuple({"batch": size, "word": lost_words(each, len(curves))} for size, each in lost.items())
    if failed:
        marks.append(Failure("word", failed))
    having = [value["curve"] for value in values]
    shades = colours("curve", having or curves, told.order)
    x = Coordinate("batch", _X, Kind.STEPS, places)
    return Panel(title, x, tuple(marks), tuple(values), shades, subtitle, group, width=360)


def _ends(found: Estimate, divisor: float) -> Mapping[str, float | None]:
    ends = {"value": found.value, "low": found.low, "high": found.high}
    return {name: None if end is None else end / divisor for name, end in ends.items()}


def failure_of(case: CaseSummary) -> str | None:
    """Return why a Case has no value that counts; None where nothing failed, or it was not tried."""
    bad = [trial.outcome.status for trial in case.trials if trial.outcome.status != Status.OK]
    if bad:
        return failure_word(bad[0])
    return str(case.verdict) if case.trials and case.verdict == Verdict.INVALID else None


def failure_word(status: Status) -> str:
    """Return how a trial ended, in words: "out of memory"."""
    return str(status).replace("_", " ")


def lost_words(each: Mapping[str, str], curves: int) -> str:
    """Return what became of the curves that have no value at one batch size, in a few words."""
    counted = Counter(each.values())
    told = []
    for why, count in counted.items():
        which = [curve for curve, word in each.items() if word == why]
        where = ", ".join(which) if count <= _MOST_NAMED else f"{count} of {curves}"
        told.append(why if count == curves else f"{why}: {where}")
    text = "; ".join(told)
    if len(text) <= _MOST_UPRIGHT:
        return text
    return (
        f"{next(iter(counted))}: {len(each)} of {curves}"
        if len(counted) == 1
        else f"{len(each)} of {curves} without a value"
    )


def interval_words(known: Sequence[Estimate]) -> str:
    """Return what the bars at the points are: "95 % confidence intervals over 3 trials"."""
    having = [one for one in known if one.low is not None and one.high is not None]
    if not having:
        return "one trial a case: no interval" if any(one.trials == 1 for one in known) else "no interval"
    least, most = min(one.trials for one in having), max(one.trials for one in having)
    count = str(least) if least == most else f"{least} to {most}"
    return f"{100 * having[0].level:g} % confidence intervals over {count} trial{'s' * (most != 1)}"

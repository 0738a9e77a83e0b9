"""A recommendation on the terminal: the device for each family, the settings for each model on each device."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from torchstone.analysis.recommend.candidates import Lead, Offer
from torchstone.analysis.recommend.hardware import Hardware, OnModel
from torchstone.analysis.recommend.parameters import Learning, Settings
from torchstone.analysis.recommend.recommend import Recommendation
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import units
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.estimate import too_wide

_FOR = {"train": "training", "infer": "inference", "generate": "generation", "load": "loading"}
_BY = {"speed": "speed", "energy": "energy (items a joule)", "memory": "speed per memory", "price": "price"}
_MOST_ROWS, _MOST_BLOCKS, _MOST_MODELS = 6, 4, 2


def print_recommendation(told: Recommendation, width: int | None = None, *, every: bool = False) -> None:
    """Print hardware, then settings; without `every` only what was measured most."""
    width = width or terminal_width()
    if not told.readings:
        where = f"{told.runs} runs are stored, none with a case that ended well" if told.runs else "nothing is stored"
        print(f"not enough stored: {where}. Measure: torchstone run demo")
    lacking = [] if told.hardware or told.settings or not told.readings else [_lacking(told)]
    for line in lacking:
        _say(line, width)
    for place, devices in enumerate(told.hardware):
        _print_hardware(devices, width, every=every, first=place == 0)
    for place, one in enumerate(told.settings[: None if every else _MOST_BLOCKS]):
        _print_settings(one, width, "\n" if place or told.hardware else "", every=every)
    if not every and len(told.settings) > _MOST_BLOCKS:
        rest = len(told.settings) - _MOST_BLOCKS
        _say(f"{rest} more workloads and devices: --full, or --model and --task to choose", width, before="\n")
    if told.unpriced:
        _say(f"no price for: {', '.join(told.unpriced)}", width, before="\n")
    for problem in told.problems:
        _say(f"unreadable: {problem.file}: {problem.message}", width)


def _lacking(told: Recommendation) -> str:
    what = {"energy": "no case here has a figure of energy: this device has no counter or gauge that was read",
            "price": f"no device here has a price: {', '.join(told.unpriced)}"}  # fmt: skip
    return f"nothing to recommend by {told.by}: {what.get(told.by, 'no case here has the figure')}"


def _say(line: str, width: int, before: str = "", indent: int = 2) -> None:
    print(before + textwrap.fill(plain(line), width, subsequent_indent=" " * indent, break_on_hyphens=False))


def _type(command: str) -> None:
    print(plain(f"  {command}"))  # whole, so that it can be copied


# ── hardware ────────────────────────────────────────────────────────────────────────────────────────────────


def _print_hardware(one: Hardware, width: int, *, every: bool, first: bool) -> None:
    what = f"hardware by {_BY[one.by]} for {one.family}, {_FOR.get(one.task, one.task)}"
    told = f"Recommended {what}: {_device(one)}." if one.recommended is not None else what
    _say(told, width, "" if first else "\n")
    if one.recommended is None:
        _print_undecided(one, width)
        return
    show(list(_standing_columns(one)), width)
    shown = one.models[: None if every else _MOST_MODELS]
    for model in shown:
        for line in _on_model(model):
            _say(f"  {line}", width, indent=4)
    if len(one.models) > len(shown):
        _say(f"  and {len(one.models) - len(shown)} more models: --full", width)
    _print_rest(one.left_out, one.cautions, one.to_type, width)


def _print_undecided(one: Hardware, width: int) -> None:
    """Print who ran these models, why nothing is compared, and what would let it be."""
    if len(one.ran) < 2:
        _say(
            "  not enough stored: one device alone ran these models. On another machine, or for another device:", width
        )
        if one.to_type:
            _type(one.to_type)
            _say("  then `torchstone import` its record here", width)
        _print_rest(one.left_out, one.cautions, None, width)
        return
    judged = f"{', '.join(one.judged)} alone" if one.judged else "none"
    _say(f"  no recommendation: of {', '.join(one.ran)}, {judged} can be judged", width)
    _print_rest(one.left_out, one.cautions, one.to_type, width)


def _standing_columns(one: Hardware) -> Iterator[Column]:
    rows = one.standings
    yield Column("device", [plain(r.device) for r in rows], left=True)
    yield Column("of the\nbest", [f"{r.against_best:.3g}×{'=' if r.could_be and not one.clear else ' '}" for r in rows])
    yield Column("models", [str(r.models) for r in rows], 2)
    yield Column("trials", [str(r.trials) for r in rows], 1)
    yield Column("runs", [str(r.runs) for r in rows], 1)
    prices = [units.MISSING if r.price_per_hour is None else f"{r.price_per_hour:g}" for r in rows]
    yield Column("price\nan hour", prices if set(prices) != {units.MISSING} else [""] * len(rows), 3)


def _device(one: Hardware) -> str:
    if one.clear:
        return f"{one.recommended}, {_lead(one.lead)}"
    tied = [r.device for r in one.standings if r.could_be]
    return f"{one.recommended}; {', '.join(tied)} cannot be told apart"


def _on_model(model: OnModel) -> Iterator[str]:
    best = "; ".join(f"{offer.device} {_amount(offer)} with {_point(offer.point)}" for offer in model.offers)
    yield f"{model.model}: {best}"
    alike = max(model.relative, key=lambda one: (len(one.ratios), max(one.values.values())), default=None)
    if alike is not None and any(offer.point != alike.point for offer in model.offers):
        # At its own best settings a device shows what it can do; at equal ones the devices alone differ.
        told = ", ".join(f"{device} {ratio:.3g}×" for device, ratio in alike.ratios.items())
        yield f"at equal settings ({_point(alike.point)}): {told}"


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────


def _print_settings(one: Settings, width: int, before: str, *, every: bool) -> None:
    shapes = {name: value for name, value in one.given.items() if name in AXES and value != AXES[name].default}
    told = f", {_point(shapes)}" if shapes else ""
    what = f"settings by {_BY[one.by]} for {one.task} {one.model} on {one.device}, data {one.data}{told}"
    _say(f"Recommended {what}: {_choice(one)}." if one.recommended is not None else what, width, before)
    rows = one.offers if every else one.offers[:_MOST_ROWS]
    show(list(_offer_columns(rows, one)), width)
    if len(rows) < len(one.offers):
        print(f"and {len(one.offers) - len(rows)} more: --full")
    if one.recommended is None:
        _say(_why_none(one), width)
    if one.learning is not None:
        _say(f"learning rate: {_learning(one.learning)}", width)
    _print_rest(one.left_out, one.cautions, one.to_type, width)


def _why_none(one: Settings) -> str:
    wide = [offer.trials for offer in one.offers if units.is_wide(offer.value, offer.low, offer.high)]
    if wide:
        return f"no recommendation: {too_wide(min(wide))}"
    rest = "was measured" if not one.left_out else "can be judged"
    return f"not enough stored: one setting alone {rest}"


def _offer_columns(rows: Sequence[Offer], one: Settings) -> Iterator[Column]:
    for axis in rows[0].point:
        yield Column(axis.replace("_", "\n", 1), [plain(_word(row.point.get(axis))) for row in rows])
    yield Column(rows[0].unit, [f"{units.significant(row.value, 4)}{_mark(row, one)}" for row in rows])
    yield Column("±", [units.spread(row.value, row.low, row.high) for row in rows], 1)
    yield Column("of the\nbest", [f"{row.against_best:.3g}×" if row.against_best else "" for row in rows], 3)
    yield Column("memory", [units.quantity(row.memory_bytes, "bytes") for row in rows], 2)
    yield Column("trials", [str(row.trials) for row in rows], 4)
    yield Column("runs", [str(len(row.runs)) for row in rows], 5)
    yield Column("", ["SUSPECT" if row.doubts else "" for row in rows], 1, left=True)


def _mark(row: Offer, one: Settings) -> str:
    if one.recommended is not None and row.case_ids == one.recommended.case_ids:
        return "*"
    return "=" if row.could_be and len(one.offers) > 1 else " "


def _choice(one: Settings) -> str:
    best = one.recommended
    assert best is not None
    stands = f"{best.trials} trial{'s' * (best.trials > 1)} in {len(best.runs)} run{'s' * (len(best.runs) > 1)}"
    if one.clear:
        return f"{_point(best.point)}; {_lead(one.lead)}; based on {stands}"
    tied = sum(offer.could_be for offer in one.offers) - 1
    others = "the other one" if tied == 1 else f"{tied} others"
    tie = f"not significantly different from {others} (=)"
    return f"{_point(best.point)} (*), {tie}; based on {stands}{_leaner(one, best)}"


def _leaner(one: Settings, best: Offer) -> str:
    top = one.offers[0]
    return "; it takes less memory than the fastest" if best.case_ids != top.case_ids else ""


def _learning(one: Learning) -> str:
    tried = ", ".join(f"{rate:g}" for rate in one.tried)
    where = f"over the first {one.horizon_items:,.0f} items of one seed, run {one.run_id}"
    size = f" at batch_size {one.batch_size}" if one.batch_size is not None else ""
    if one.best is None:
        return f"none of {tried} lowers the loss steadily{size} ({where})"
    same = f", as good: {', '.join(f'{rate:g}' for rate in one.as_good)}" if one.as_good else ""
    if one.cannot_tell:
        same += f", cannot tell: {', '.join(f'{rate:g}' for rate in one.cannot_tell)}"
    bad = (
        f"; the loss rises or breaks down with {', '.join(f'{rate:g}' for rate in one.unsteady)}"
        if one.unsteady
        else ""
    )
    more = f"; it is the last on its side: try {one.try_next:.3g}" if one.try_next is not None else ""
    return f"{one.best:g} of {tried}{same}{size} ({where}){bad}{more}"


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_rest(left_out: Sequence[str], cautions: Sequence[str], to_type: str | None, width: int) -> None:
    for line in left_out:
        _say(f"left out: {line}", width)
    for line in cautions:
        _say(f"note: {line}", width)
    if to_type is not None:
        print("what would settle more:")
        _type(to_type)


def _lead(lead: Lead | None) -> str:
    if lead is None:
        return "the only one left"
    level = f"{100 * lead.level:.4g} %, for all that were tried" if lead.level > 0.95 else "95 %"
    return f"{units.ratio(lead.ratio, lead.low, lead.high)} times the next ({level})"


def _amount(offer: Offer) -> str:
    around = units.spread(offer.value, offer.low, offer.high)
    return f"{units.significant(offer.value, 4)} {offer.unit} {around}".rstrip()


def _point(point: Mapping[str, Scalar]) -> str:
    changed = {
        axis: value for axis, value in point.items()
        if axis in ("batch_size", "precision") or axis not in AXES or value != AXES[axis].default
    }  # fmt: skip
    return ", ".join(f"{axis} {_word(value)}" for axis, value in changed.items()) or "its defaults"


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)

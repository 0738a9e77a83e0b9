"""A recommendation as a Document: the device for each family of models, the settings for each model on each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone.analysis.recommend.candidates import Doubted, Offer, why_wide
from torchstone.analysis.recommend.hardware import Hardware, OnModel
from torchstone.analysis.recommend.parameters import Learning, Settings
from torchstone.analysis.recommend.recommend import Recommendation
from torchstone.core import units
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.estimate import Estimate, Severity
from torchstone.core.schema.trial import FEWEST_UNDISTURBED
from torchstone.report.diagnosis_messages import text, texts
from torchstone.report.document import Column, CommandLine, Document, Part, Role, Section, Table, Text, paragraphs
from torchstone.report.documents.cost import price_text, value_word
from torchstone.report.documents.run_answer import PURPOSES, point_words

_BY = {"speed": "speed", "energy": "energy (items a joule)", "memory": "speed per memory", "price": "price"}
_MOST_ROWS, _MOST_BLOCKS = 6, 4
_BEST, _EVEN = "*", "="


def recommendation_document(told: Recommendation) -> Document:
    """Return hardware, the settings for it, and what to type next; all else is folded."""
    return Document(f"Recommended, by {told.by}", tuple(_parts(told)))


def _parts(told: Recommendation) -> Iterator[Part]:
    if not told.readings:
        where = f"{told.runs} runs are stored, none with a successful case" if told.runs else "nothing is stored"
        yield Text(f"not enough stored: {where}. Measure:", Role.HEADLINE)
        yield CommandLine("torchstone run demo")
    elif not told.settings:
        yield Text(_lacking(told), Role.HEADLINE)
    else:
        for devices in told.hardware:
            yield from _hardware(devices)
        on = next((one.recommended for one in told.hardware if one.recommended is not None), told.settings[0].device)
        first = next((one for one in told.settings if one.device == on), told.settings[0])
        yield from _settings(first)
        yield Table(tuple(_offer_columns(first.offers, first)), most=_MOST_ROWS)
        for one in [one for one in told.settings if one is not first][: _MOST_BLOCKS - 1]:
            yield from _settings(one)
        known = [one.to_type for one in told.hardware if len(one.ran) != 1]
        if (command := next(filter(None, (*known, first.to_type)), None)) is not None:
            yield Text("what would settle more:")
            yield CommandLine(command)
    if told.unpriced:
        yield Text(f"no price for: {', '.join(told.unpriced)}", Role.NOTE)
    for name, offer in told.prices.items():
        yield Text(price_text(name, offer, told.currency or ""), Role.NOTE)
    for problem in told.problems:
        yield Text(f"unreadable: {problem.file}: {problem.message}", Role.NOTE)
    if rest := tuple(_folded(told)):
        yield Section("everything else", rest, folded=True, how="--full, or --model and --task to choose")


def _folded(told: Recommendation) -> Iterator[Part]:
    """Yield the best of each device by model, and the settings of each workload and device with their table."""
    for devices in told.hardware:
        yield from (Text(line, Role.DETAIL) for model in devices.models for line in _on_model(model))
        if len(devices.ran) == 1 and devices.to_type:
            yield Text("On another machine, or for another device, type:")
            yield CommandLine(devices.to_type)
            yield Text("Then `torchstone import` its record here.")
    for one in told.settings:
        stands = [
            f"{row.trials} trial{'s' * (row.trials > 1)} in {len(row.runs)} run{'s' * (len(row.runs) > 1)}"
            for row in (one.recommended,)
            if row is not None
        ]
        parts: list[Part] = [*paragraphs([f"based on {text}" for text in stands])]
        parts.append(Table(tuple(_offer_columns(one.offers, one))))
        if one.learning is not None:
            parts.append(Text(f"learning rate: {_learning(one.learning)}"))
        if one.to_type is not None:
            parts += [Text("what would settle more:"), CommandLine(one.to_type)]
        yield Section(f"settings for {_workload(one)}", tuple(parts))


def _lacking(told: Recommendation) -> str:
    what = {
        "energy": "no case here has a figure of energy: this device has no counter or gauge that was read",
        "price": f"no device here has a price: {', '.join(told.unpriced)}",
    }
    return f"nothing to recommend by {told.by}: {what.get(told.by, 'no case here has the figure')}"


# ── hardware ────────────────────────────────────────────────────────────────────────────────────────────────


def _hardware(one: Hardware) -> Iterator[Part]:
    what = f"hardware by {_BY[one.by]} for {one.family}, {PURPOSES.get(one.task, one.task)}"
    if one.recommended is None:
        judged = f"{', '.join(one.judged)} alone" if one.judged else "none"
        why = (
            "one device alone ran these models"
            if len(one.ran) < 2
            else f"of {', '.join(one.ran)}, {judged} can be judged"
        )
        yield Text(f"No recommendation of {what}: {why}.", Role.HEADLINE)
        yield from _doubts(one.left_out, one.cautions)
        yield from (Text(_doubted(each), Role.NOTE) for each in one.doubts)
        return
    yield Text(f"Recommended {what}: {_device(one)}.", Role.HEADLINE)
    yield from _doubts(one.left_out, one.cautions)
    yield Table(tuple(_device_columns(one)))


def _device_columns(one: Hardware) -> Iterator[Column]:
    rows = one.standings
    yield Column("device", tuple(r.device for r in rows), left=True)
    marks = [_EVEN if r.could_be and not one.clear else "" for r in rows]
    times = [units.ratio(r.against_best.value, r.against_best.low, r.against_best.high) for r in rows]
    top = max(rows, key=lambda r: r.against_best.value)
    shown = ["1" if r is top else text for r, text in zip(rows, times, strict=True)]
    yield Column("times the best", tuple(text + mark for text, mark in zip(shown, marks, strict=True)))
    yield Column("models", tuple(str(r.models) for r in rows), 2)
    yield Column("trials", tuple(str(r.trials) for r in rows), 1)
    yield Column("runs", tuple(str(r.runs) for r in rows), 1)
    if any(r.price_per_hour is not None for r in rows):
        prices = tuple(units.MISSING if r.price_per_hour is None else f"{r.price_per_hour:g}" for r in rows)
        yield Column("price an hour", prices, 3)


def _device(one: Hardware) -> str:
    if one.clear:
        return f"{one.recommended}, {_lead(one.lead)}"
    tied = [r.device for r in one.standings if r.could_be]
    return f"{one.recommended}; {', '.join(tied)} are not significantly different ({_EVEN})"


def _on_model(model: OnModel) -> Iterator[str]:
    best = "; ".join(f"{offer.device} {_amount(offer)} with {_point(offer.point)}" for offer in model.offers)
    yield f"{model.model}: {best}"
    alike = max(model.relative, key=lambda one: (len(one.ratios), max(one.values.values())), default=None)
    if alike is not None and any(offer.point != alike.point for offer in model.offers):
        # At its own best settings a device shows what it can do; at equal ones the devices alone differ.
        told = ", ".join(f"{device} {ratio:.3g}×" for device, ratio in alike.ratios.items())
        yield f"at equal settings ({_point(alike.point)}): {told}"


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────


def _settings(one: Settings) -> Iterator[Part]:
    what = f"settings by {_BY[one.by]} for {_workload(one)}"
    best = one.recommended
    told = f"Recommended {what}: {_choice(one, best)}." if best else f"No recommendation of {what}: {_why_none(one)}."
    yield Text(told, Role.HEADLINE)
    yield from _doubts(one.left_out, one.cautions)


def _workload(one: Settings) -> str:
    shapes = {name: value for name, value in one.given.items() if name in AXES and value != AXES[name].default}
    given = f", {_point(shapes)}" if shapes else ""
    return f"{one.task} {one.model} on {one.device}, data {one.data}{given}"


def _why_none(one: Settings) -> str:
    wide = [offer for offer in one.offers if units.is_wide(offer.value, offer.low, offer.high)]
    if wide:
        return texts(why_wide(wide), "; ")
    if not any(not offer.doubts and offer.trials >= FEWEST_UNDISTURBED for offer in one.offers):
        return f"no setting has {FEWEST_UNDISTURBED} valid trials"
    return f"one setting alone {'can be judged' if one.left_out else 'was measured'}"


def _offer_columns(rows: Sequence[Offer], one: Settings) -> Iterator[Column]:
    axes = tuple(rows[0].point)
    for axis in axes:
        yield Column(axis.replace("_", " "), tuple(value_word(row.point.get(axis)) for row in rows))
    yield Column(rows[0].unit, tuple(f"{units.significant(row.value, 4)}{_mark(row, one)}" for row in rows))
    yield Column("±", tuple(units.spread(row.value, row.low, row.high) for row in rows), 1, of=len(axes))
    yield Column("memory", tuple(units.quantity(row.memory_bytes, "bytes") for row in rows), 2)
    yield Column("trials", tuple(str(row.trials) for row in rows), 4)
    yield Column("runs", tuple(str(len(row.runs)) for row in rows), 5)
    if any(row.doubts for row in rows):
        yield Column("verdict", tuple("SUSPECT" if row.doubts else "" for row in rows), 1, left=True)


def _mark(row: Offer, one: Settings) -> str:
    if one.recommended is not None and row.case_ids == one.recommended.case_ids:
        return _BEST
    return _EVEN if row.could_be and len(one.offers) > 1 else ""


def _choice(one: Settings, best: Offer) -> str:
    if one.clear:
        return f"{point_words(best.point)}; {_lead(one.lead)}"
    tied = sum(offer.could_be for offer in one.offers) - 1
    others = "the other one" if tied == 1 else f"{tied} others"
    tie = f"not significantly different from {others} ({_EVEN})"
    return f"{point_words(best.point)} ({_BEST}), {tie}{_leaner(one, best)}"


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
    more = f"; it is at the edge of the range: also try {one.try_next:.3g}" if one.try_next is not None else ""
    return f"{one.best:g} of {tried}{same}{size} ({where}){bad}{more}"


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────


def _doubts(left_out: Sequence[Statement], cautions: Sequence[Statement]) -> Iterator[Part]:
    yield from (Text(f"left out: {text(one)}") for one in left_out)
    yield from (Text(text(one), Role.NOTE) for one in cautions)


def _doubted(one: Doubted) -> str:
    word = "INVALID" if one.finding.severity == Severity.ERROR else "SUSPECT"
    found = f"{one.count} of {one.of} settings are {word} ({one.finding.check}): {one.finding.message}"
    return f"{found}; see `torchstone show {one.run_id}`"


def _lead(lead: Estimate | None) -> str:
    if lead is None:
        return "the only one left"
    return f"{units.ratio(lead.value, lead.low, lead.high)} times the next ({100 * lead.level:.4g} %)"


def _amount(offer: Offer) -> str:
    around = units.spread(offer.value, offer.low, offer.high)
    return f"{units.significant(offer.value, 4)} {offer.unit} {around}".rstrip()


def _point(point: Mapping[str, Scalar]) -> str:
    changed = {
        axis: value
        for axis, value in point.items()
        if axis in ("batch_size", "precision") or axis not in AXES or value != AXES[axis].default
    }
    return ", ".join(f"{axis} {value_word(value)}" for axis, value in changed.items()) or "its defaults"

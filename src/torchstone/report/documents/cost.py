"""What results cost as a Document: the lowest first, a table of what was asked; folded, all else and the prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.cost import Amounts, CaseCost, CostAnswer, Of
from torchstone.config.prices import HourlyPrice, PerKilowattHour
from torchstone.core import units
from torchstone.core.messages import too_wide
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.report.document import Column, Document, Fields, Part, Role, Section, Table, Text

_MOST_ROWS = 12
_MOST_NAMED = 5
_MOST_ANSWERS = 4


def cost_document(told: CostAnswer) -> Document:
    """Return it: answer and table by workload; folded, further amounts, prices, and what is not in them."""
    return Document("Cost", tuple(_parts(told)))


def price_text(device: str, price: HourlyPrice, currency: str) -> str:
    """Return a price with what it is worth nothing without: its date and source."""
    return f"price of {device}: {_price(price, currency)}"


def _price(price: HourlyPrice, currency: str) -> str:
    return f"{price.per_hour:g} {currency}/h ({_dated(price.provider, price.date, price.source)})"


def _dated(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _parts(told: CostAnswer) -> Iterator[Part]:
    groups = _groups(told.cases)
    if not groups:
        yield Text("nothing to reckon with: no case of these runs has a throughput", Role.HEADLINE)
    for group in groups[:_MOST_ANSWERS]:
        subject = f"{group[0].task} {group[0].model}: " if len(groups) > 1 else ""
        yield Text(f"{subject}{_answer(group, told)}.", Role.HEADLINE)
    if told.unpriced and any(one.price is not None for one in told.cases):
        yield Text(f"no price for: {', '.join(told.unpriced[:_MOST_NAMED])}", Role.NOTE)
    if told.without:
        yield Text(f"without a throughput: {'; '.join(told.without[:_MOST_NAMED])}", Role.NOTE)
    if any(one.verdict != Verdict.VALID for one in told.cases):
        yield Text("A case is not VALID: torchstone show has the reason.", Role.NOTE)
    rest: list[Part] = []
    for group in groups:
        first, *others = _tables(group, told)
        title = f"{group[0].task} {group[0].model}, data {group[0].data}"
        yield Section(title, (first, *_of_table(group)))
        if others:
            rest.append(Section(title, tuple(others)))
    sources = tuple(_sources(told))
    rest += [*_notes(told), *((Fields(sources),) if sources else ())]
    if rest:
        yield Section("everything else, with date and source of each price", tuple(rest), folded=True)


def _amounts_of(one: CaseCost, told: CostAnswer) -> Sequence[Amounts]:
    """Return the amount that answers: of a training, where that was asked for, else the first."""
    return [found for found in one.amounts if told.epochs is not None and found.of == Of.TRAINING] or one.amounts[:1]


def _answer(group: Sequence[CaseCost], told: CostAnswer) -> str:
    priced = [(one, found) for one in group for found in _amounts_of(one, told) if found.money is not None]
    if not priced:
        return _by_energy(group)
    one, found = min(priced, key=lambda pair: pair[1].money.value if pair[1].money is not None else 0.0)
    money = _amount(found.money)
    at = f"{_point(one)} on {_device(one)}"
    if len(priced) == 1:
        return f"{_what(one, found)}: {money}; {at}"
    return f"{_what(one, found)}: {money}; {at}; the lowest of {len(priced)} costs"


def _device(one: CaseCost) -> str:
    named = one.price is not None and one.price.provider
    return f"{one.device_name} ({one.price.provider})" if named and one.price is not None else one.device_name


def _by_energy(group: Sequence[CaseCost]) -> str:
    known = [(one, found) for one in group for found in one.amounts[:1] if found.energy_kwh is not None]
    if not known:
        devices = ", ".join(dict.fromkeys(one.device_name for one in group))
        return f"no cost: no price for {devices}, and energy was not measured"
    one, found = min(known, key=lambda pair: pair[1].energy_kwh.value if pair[1].energy_kwh is not None else 0.0)
    return f"{_what(one, found)}: {_amount(found.energy_kwh)}; {_point(one)} on {one.device_name}"


def _what(one: CaseCost, found: Amounts) -> str:
    match found.of:
        case Of.MILLION:
            return f"a million {one.item}s"
        case Of.EPOCH:
            return f"an epoch of {found.items or 0:,.0f} {one.item}s"
        case Of.TRAINING:
            return f"a training of {found.items or 0:,.0f} {one.item}s"
        case Of.MEASURED:
            return "the training, as long as it took"


def _groups(cases: Sequence[CaseCost]) -> list[list[CaseCost]]:
    found: dict[tuple[str, ...], list[CaseCost]] = {}
    for one in cases:
        found.setdefault((one.task, one.model, one.data), []).append(one)
    return list(found.values())


def _tables(group: Sequence[CaseCost], told: CostAnswer) -> list[Section]:
    """Return a table for each amount, the one that answers first."""
    asked = dict.fromkeys(_what(one, found) for one in group for found in _amounts_of(one, told))
    tables = []
    for what in dict.fromkeys((*asked, *(_what(one, found) for one in group for found in one.amounts))):
        rows = [(one, found) for one in group for found in one.amounts if _what(one, found) == what]
        tables.append(Section(what, (Table(tuple(_columns(rows)), most=_MOST_ROWS),)))
    return tables


def _of_table(group: Sequence[CaseCost]) -> Iterator[Text]:
    shown = [e for one in group for found in one.amounts for e in (found.money, found.energy_kwh) if e is not None]
    if wide := [e.trials for e in shown if e.is_wide]:
        yield Text(f"± {units.MISSING}: {too_wide(min(wide))}")
    if all(found.energy_kwh is None for one in group for found in one.amounts):
        yield Text("energy: not measured; no counter or gauge of this device was read", Role.NOTE)


def _columns(rows: Sequence[tuple[CaseCost, Amounts]]) -> Iterator[Column]:
    cases = [one for one, _ in rows]
    if len({one.run_id for one in cases}) > 1:
        yield Column("run", tuple(one.run_name for one in cases), left=True, shorten=True)
    if len({one.device_name for one in cases}) > 1:
        yield Column("device", tuple(one.device_name for one in cases), left=True, shorten=True)
    for axis in _varying(cases):
        yield Column(axis.replace("_", " "), tuple(value_word(one.configuration.get(axis)) for one in cases))
    if any(one.price is not None and one.price.provider for one in cases):
        yield Column("provider", tuple(one.price.provider if one.price else "" for one in cases), left=True)
    if any(one.verdict != Verdict.VALID for one in cases):
        doubts = tuple("" if one.verdict == Verdict.VALID else str(one.verdict) for one in cases)
        yield Column("verdict", doubts, 1, left=True)
    yield from _figure("time", [found.time_h for _, found in rows], 4)
    yield from _figure("cost", [found.money for _, found in rows], 0)
    yield from _figure("energy", [found.energy_kwh for _, found in rows], 1)
    yield from _figure("electricity", [found.electricity for _, found in rows], 2)
    yield from _figure("CO₂e", [found.carbon_g for _, found in rows], 3)


def _figure(title: str, found: Sequence[Estimate | None], rank: int) -> Iterator[Column]:
    known = [one for one in found if one is not None]
    if not known:
        return
    cells = tuple(units.MISSING if one is None else _plain(one) for one in found)
    yield Column(title, cells, rank)
    if title in ("cost", "energy") and any(one.low is not None for one in known):
        yield Column("±", tuple("" if o is None else units.spread(o.value, o.low, o.high) for o in found), rank)


def _varying(cases: Sequence[CaseCost]) -> list[str]:
    first = cases[0].configuration
    names = [name for name in first if len({one.configuration.get(name) for one in cases}) > 1]
    return names if "batch_size" in names or "batch_size" not in first else ["batch_size", *names]


def _notes(told: CostAnswer) -> Iterator[Text]:
    amounts = [found for one in told.cases for found in one.amounts]
    if told.epochs is not None and not any(found.of == Of.TRAINING for found in amounts):
        yield Text("no cost of a training: the items of an epoch are not known; --items N", Role.NOTE)
    if any(found.of == Of.TRAINING for found in amounts):
        yield Text(
            "The cost of an epoch or training is that of its steps: validation, checkpoints and starting come on top.",
            Role.NOTE,
        )
    if any(found.energy_kwh is not None for found in amounts):
        yield Text("Energy is that of the device: the rest of the machine and its cooling come on top.", Role.NOTE)
    if any(found.electricity is not None and found.money is not None for found in amounts):
        yield Text("The price of an hour of a rented device includes its electricity: do not add the two.", Role.NOTE)


def _sources(told: CostAnswer) -> Iterator[tuple[str, str]]:
    priced = dict.fromkeys((one.device_name, one.price) for one in told.cases if one.price is not None)
    for name, price in priced:
        if price is not None:
            yield "price", f"{name}: {_price(price, told.currency or '')}"
    for title, one in (("electricity", told.electricity), ("carbon intensity", told.carbon)):
        if one is not None:
            yield title, _per_kwh(one, "CO₂e" if title != "electricity" else "")


def _per_kwh(one: PerKilowattHour, of: str) -> str:
    return f"{one.value:g} {one.unit}{f' {of}' if of else ''}/kWh ({_dated(one.date, one.source)})"


def _point(one: CaseCost) -> str:
    named = {
        axis: value
        for axis, value in one.configuration.items()
        if axis in ("batch_size", "precision") or (axis in AXES and value != AXES[axis].default)
    }
    return (
        ", ".join(f"{axis} {value_word(value)}" for axis, value in list(named.items())[:_MOST_NAMED]) or "its defaults"
    )


def _amount(found: Estimate | None) -> str:
    if found is None:
        return units.MISSING
    if found.low is None or found.high is None:
        return _plain(found)
    if found.is_wide:
        return f"{_plain(found)} ({too_wide(found.trials)})"
    return f"{_plain(found)} [{units.significant(found.low, 3)}, {units.significant(found.high, 3)}]"


def _plain(found: Estimate) -> str:
    if found.unit == "g" and found.value >= 1000.0:
        return f"{units.significant(found.value / 1000.0, 3)} kg"
    if found.unit == "h" and found.value < 1.0:
        return units.quantity(3600.0 * found.value, "s")
    return f"{units.significant(found.value, 3)} {found.unit}"


def value_word(value: Scalar) -> str:
    """Return a setting as a word of a table."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)

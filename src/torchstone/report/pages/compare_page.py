"""Runs beside each other: what tells them apart, their rates by case, and which differences are significant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.compare.compare import ComparisonRequest, compare
from torchstone.analysis.compare.inputs import of_runs
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import model_name
from torchstone.core.schema.run import Head
from torchstone.report.document import Document
from torchstone.report.documents.comparison import comparison_document
from torchstone.report.pages.address import Query, address, compare_address
from torchstone.report.pages.pictures import picture, pictures
from torchstone.report.pages.site import Reply, Site, redirect
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import cases_of
from torchstone.storage.query import Entry, read_run, stored
from torchstone.storage.rows import CaseRow

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_BYTES = 64 * 2**20  # of records that a page reads; more takes longer than people wait
_MOST_CASES = 200  # rows
_MOST_VALUES = 6  # of an axis that varies within a run


class Rates(msgspec.Struct, frozen=True):
    """One Case: its row in each run; None where a run does not have it."""

    label: str
    item: str
    device_apart: bool
    rows: tuple[CaseRow | None, ...]


def compare_page(site: Site, query: Query) -> Reply:
    """Return the page. `run=…` of a form becomes a=…&b=…; `all=1`: with what is the same in all runs."""
    if len(ticked := query.all("run")) > len(_LETTERS):
        return site.message(
            "Too many runs",
            f"{len(ticked)} runs are ticked: {len(_LETTERS)} at most can be compared. Untick some.",
            400,
        )
    if ticked:
        return redirect(compare_address(ticked))
    ids, everything = _ids(query), query.get("all") == "1"
    if len(ids) < 2:
        return site.message(
            "Choose two runs or more",
            "Tick their boxes in the list of runs, then press Compare. The first is the baseline.",
            400,
        )
    entries = _entries(site, ids)
    with site.store.reading() as connection:
        rates = _rates([cases_of(connection, one) for one in ids], _items(entries))
    facts = recorded_facts([entry.head for entry in entries])
    document, why = _judged(site, entries)
    return site.show(
        "compare.html",
        title=localized("Comparison of {0} runs", len(ids)),
        here="/runs",
        ids=ids,
        document=document,
        why=why,
        facts=[fact for fact in facts if everything or fact.differs],
        same=sum(not fact.differs for fact in facts),
        everything=everything,
        rates=rates[:_MOST_CASES],
        more_rates=max(0, len(rates) - _MOST_CASES),
        other=_other(ids, everything=everything),
        starts=_starts,
        pictures=pictures(compare_address(ids), document),
    )


def compare_picture(site: Site, query: Query, name: str) -> Reply:
    """Return a picture of a comparison."""
    entries = _entries(site, _ids(query))
    document, why = _judged(site, entries)
    if document is None:
        raise UsageError(why)
    return picture(site, _state(entries), document, name)


def _ids(query: Query) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for letter in _LETTERS if (one := query.get(letter))))


def _entries(site: Site, ids: Sequence[str]) -> list[Entry]:
    """Return the runs. Raises UsageError where one is not stored."""
    with site.store.reading() as connection:
        found = {one: stored(connection, site.store.place, one) for one in ids}
    if lacking := [one for one, entry in found.items() if entry is None]:
        raise UsageError(f"no run {', '.join(lacking)}")
    return [entry for entry in found.values() if entry is not None]


def _other(ids: Sequence[str], *, everything: bool) -> str:
    """Return the address with everything, or that with what differs only."""
    pairs = list(zip(_LETTERS, ids, strict=False))
    return address("/compare", *pairs, *([] if everything else [("all", "1")]))


def _starts(facts: Sequence[Fact], place: int) -> bool:
    """Say whether a group begins at this place."""
    return place == 0 or facts[place - 1].group != facts[place].group


def _items(entries: Sequence[Entry]) -> dict[str, str]:
    """Return what an item of each Case is, such as an image."""
    return {case.case_id: case.workload.item for entry in entries for case in entry.head.plan.cases}


def _rates(rows: Sequence[Sequence[CaseRow]], items: Mapping[str, str]) -> list[Rates]:
    """Return the Cases that two runs have first, then the others."""
    ids = dict.fromkeys(row.case_id for own in rows for row in own)
    by_run = [{row.case_id: row for row in reversed(own)} for own in rows]
    found = []
    for case_id in ids:
        own = tuple(cases.get(case_id) for cases in by_run)
        there = [row for row in own if row is not None]
        label = ", ".join(filter(None, (f"{there[0].task} {there[0].model}", there[0].settings)))
        found.append(Rates(label, items.get(case_id, "item"), len({row.device_name for row in there}) > 1, own))
    return sorted(found, key=lambda one: sum(row is not None for row in one.rows) < 2)


def _judged(site: Site, entries: Sequence[Entry]) -> tuple[Document | None, str]:
    """Return the comparison as a Document, or why there is none."""
    sizes = [entry.path.stat().st_size for entry in entries if entry.path.is_file()]
    if sum(sizes) > _MOST_BYTES:
        ids = " ".join(entry.row.run_id for entry in entries)
        return None, localized("The records are too large to compare on a page. Type: torchstone compare {0}", ids)
    try:
        return site.kept(_state(entries), lambda: _comparison(entries)), ""
    except UsageError as fault:
        return None, str(fault)


def _state(entries: Sequence[Entry]) -> tuple[object, ...]:
    """Return what names the comparison of runs, and changes when a record does."""
    return "comparison", *((entry.row.run_id, entry.stamp) for entry in entries)


def _comparison(entries: Sequence[Entry]) -> Document:
    participants = of_runs([read_run(entry.path) for entry in entries])
    return in_spoken_language(comparison_document(compare(participants, ComparisonRequest())))


# ── what runs are told apart by: machine, software, settings, procedure and cases, a value a run ─────────────


class Fact(msgspec.Struct, frozen=True):
    """One thing that is recorded, with a value for each run; None where a run does not tell it."""

    group: str
    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Whether not all runs have the same value."""
        return len(set(self.values)) > 1


def recorded_facts(heads: Sequence[Head]) -> tuple[Fact, ...]:
    """Return all that is recorded of the runs beside their figures, group by group, in the order of the first."""
    told = [dict(_facts(head)) for head in heads]
    names = dict.fromkeys(key for one in told for key in one)
    groups = list(dict.fromkeys(group for group, _ in names))
    return tuple(
        Fact(group, name, tuple(one.get((group, name)) for one in told))
        for group, name in sorted(names, key=lambda key: groups.index(key[0]))
    )


def _facts(head: Head) -> Iterator[tuple[tuple[str, str], str | None]]:
    cases, host = head.plan.cases, head.machine.host
    yield ("run", "name"), head.name
    yield ("run", "began (UTC)"), head.started_utc[:16].replace("T", " ")
    yield ("run", "command"), " ".join(head.command)
    if head.source is not None:
        yield ("run", f"file {head.source.word}"), head.source.sha256[:12]
    for name, digest in head.code.items():
        yield ("run", f"code {name}"), digest[:12]
    yield ("cases", "task"), _listed(str(case.workload.task) for case in cases)
    yield ("cases", "model"), _listed(model_name(case.workload.model) for case in cases)
    yield ("cases", "data"), _listed(case.workload.data for case in cases)
    for axis in dict.fromkeys(axis for case in cases for axis in case.configuration):
        yield ("cases", axis), _listed(_text(case.configuration.get(axis)) for case in cases)
    yield ("machine", "host"), host.hostname
    for device in head.machine.devices:
        memory = f", {units.quantity(device.memory_bytes, 'bytes')}" if device.memory_bytes is not None else ""
        driver = f", driver {device.driver}" if device.driver is not None else ""
        yield ("machine", f"{device.kind}:{device.index}"), f"{device.name}{memory}{driver}"
    yield ("machine", "processor"), host.processor
    yield ("machine", "cores"), None if host.logical_cores is None else str(host.logical_cores)
    yield ("machine", "memory"), None if host.memory_bytes is None else units.quantity(host.memory_bytes, "bytes")
    yield ("machine", "system"), host.platform
    yield ("machine", "governor"), host.governor
    yield from ((("software", name), version) for name, version in head.machine.software.items())
    yield from ((("settings", name), value) for name, value in head.machine.settings.items())
    yield from _procedure(msgspec.to_builtins(head.procedure))


def _procedure(told: Mapping[str, object]) -> Iterator[tuple[tuple[str, str], str | None]]:
    for name, value in told.items():
        if not isinstance(value, Mapping):  # the settings of a training are told by its cases
            yield ("procedure", name), None if value is None else _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return units.MISSING if value is None else str(value)


def _listed(values: Iterator[str]) -> str:
    found = list(dict.fromkeys(values))
    more = f" and {len(found) - _MOST_VALUES} more" if len(found) > _MOST_VALUES else ""
    return ", ".join(found[:_MOST_VALUES]) + more

"""What several runs are told apart by: machine, software, settings, procedure and cases, a value a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.core import units
from torchstone.core.schema.case import model_name
from torchstone.core.schema.run import Head

_MOST_VALUES = 6  # of an axis that varies within a run


class Fact(msgspec.Struct, frozen=True):
    """One thing that is recorded, with a value for each run; None where a run does not tell it."""

    group: str
    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Whether not all runs have the same value."""
        return len(set(self.values)) > 1


def facts_of(heads: Sequence[Head]) -> tuple[Fact, ...]:
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

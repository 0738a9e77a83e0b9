"""What changed between two stretches of a case's history: software, driver, settings, the user's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import flat
from torchstone.storage.measured import Measured

_WORTH = ("heap", "isolation", "settings", "seed", "warmup", "iterations", "budget_s", "target", "telemetry_period_s")
_FACTS = ("setting_", "revision", "threads_in_effect")
_SHORT = 12  # digits of a digest that are shown


class Changed(msgspec.Struct, frozen=True):
    """One thing that was another before and after. `throughout`: it was one and the same within each stretch."""

    what: str
    before: str | None
    after: str | None
    throughout: bool


def changed(before: Sequence[Measured], after: Sequence[Measured]) -> tuple[Changed, ...]:
    """Return what differs between the last run before and the first run after, what holds throughout first."""
    last, first = described(before[-1]), described(after[0])
    names = [name for name in dict.fromkeys((*last, *first)) if last.get(name) != first.get(name)]
    if not names:
        return ()
    both = [[described(one) for one in stretch] for stretch in (before, after)]
    found = [
        Changed(name, last.get(name), first.get(name), all(len({one.get(name) for one in side}) == 1 for side in both))
        for name in names
    ]
    return tuple(sorted(found, key=lambda one: not one.throughout))


def described(one: Measured) -> Mapping[str, str | None]:
    """Return everything that was recorded of a run and may move its figures: name → value."""
    machine, device = one.machine, one.device
    told: dict[str, str | None] = {
        f"code {name}": digest[:_SHORT] for name, digest in one.code.items()
    }  # the user's own first: it is what people look for
    if one.source is not None:
        told[f"file {one.source.word}"] = one.source.sha256[:_SHORT]
    told.update(machine.software)
    told["system"], told["processor"], told["governor"] = (
        machine.host.platform,
        machine.host.processor,
        machine.host.governor,
    )
    if device is not None:
        told["device"], told["driver"], told["runtime"] = device.name, device.driver, device.runtime
    told.update(machine.settings)
    told.update({name: _text(one.procedure.get(name)) for name in _WORTH})
    told.update({name: _text(value) for name, value in flat(one.facts).items() if name.startswith(_FACTS)})
    return told


def _text(value: Scalar | object) -> str | None:
    return None if value is None else str(value)

"""Batches are copied to the device while it waits."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.analysis.advice import rules
from torchstone.core import units
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.core.schema.phase import TRANSFER
from torchstone.workflows.diagnose.evidence import Evidence


def transfer(e: Evidence) -> Cause | None:
    """Return the cause, or None where there is nothing to copy or it takes next to nothing."""
    rule, known, share = rules.TRANSFER, e.known, e.share(TRANSFER)
    if not e.accelerator or share < rule.least:
        return None
    pageable = e.setting("pin_memory") is False
    title = (
        "batches are copied from pageable memory: the device waits for them"
        if pageable
        else "copying batches to the device takes long"
    )
    pin = (WhatIf({"pin_memory": True}, "page-locked batches, copied while the device computes"),) if pageable else ()
    return Cause(
        "transfer", Kind.IO, title, share, tuple(_evidence(e, share)), usual=tuple(rule.usual(known)),
        remedies=tuple(rule.remedies(known)), what_ifs=pin,
    )  # fmt: skip


def _evidence(e: Evidence, share: float) -> Iterator[str]:
    yield f"transfer is {100 * share:.0f} % of the step ({units.quantity(e.phase_s(TRANSFER), 's')})"
    operators = e.look.operators if e.look is not None else None
    if operators is not None and operators.pageable_copies:
        yield f"{operators.pageable_copies:g} copies a step are from pageable memory: the host waits for each"
    if (waits_s := e.host_s.get(TRANSFER)) is not None:
        yield f"the host spends {units.quantity(waits_s, 's')} a step on it"

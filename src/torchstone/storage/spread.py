"""The usual variation between trials of the same code on this machine, from the stored runs."""

from __future__ import annotations

import math
from pathlib import Path

from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Usual
from torchstone.core.stats.moderated import Spread, spread_of, usual
from torchstone.storage.measured import Measured, measured

_FEWEST_CASES = 3  # fewer say little of a machine
_MOST_CASES = 200  # the newest: a machine changes
_PACE = "throughput"


def usual_spread(folder: Path, machine: Machine) -> Usual | None:
    """Return what the runs of an output folder tell of this machine's trials; None where there are too few.

    Counted are cases with two trials and more in processes of their own, on this host and one of its devices.
    """
    if not (folder / "records").is_dir():
        return None
    found: list[tuple[str, Spread]] = []
    for one in reversed(measured(folder, (_PACE,)).measured):
        spread = _spread(one, machine)
        if spread is not None:
            found.append((one.run_id, spread))
        if len(found) == _MOST_CASES:
            break
    if len(found) < _FEWEST_CASES or (deviation := usual([spread for _, spread in found])) is None:
        return None
    return Usual(round(deviation, 6), len(found), len({run_id for run_id, _ in found}))


def _spread(one: Measured, machine: Machine) -> Spread | None:
    here = one.machine.host.hostname == machine.host.hostname
    device = machine.device(one.case.placement.device, one.case.placement.index)
    same = here and device is not None and one.device is not None and device.name == one.device.name
    if not same or one.procedure.get("isolation") not in ("fork", "spawn"):
        return None
    values = [value for value in one.values(_PACE) if value > 0.0]
    spread = spread_of([math.log(value) for value in values])
    return spread if spread is not None and spread.variance > 0.0 else None

"""The colours of a step's phases, the same in every picture."""

from __future__ import annotations

from collections.abc import Collection

from torchstone.core.charts.picture import Colours
from torchstone.core.schema import phase

_SHADES = {
    phase.DATA: "#e69f00", phase.TRANSFER: "#cc79a7", phase.PREFILL: "#f0e442", phase.DECODE: "#d55e00",
    phase.FORWARD: "#56b4e9", phase.BACKWARD: "#0072b2", phase.OPTIMIZER: "#009e73", phase.REST: "#bbbbbb",
}  # fmt: skip


def phase_colours(measured: Collection[object]) -> Colours:
    """Return a colour for each phase among those measured, in the order of the step."""
    names = tuple(name for name in phase.PHASES if name in measured)
    return Colours("phase", names, tuple(_SHADES[name] for name in names))

"""The three questions of a slow training, answered by shares of its step: loading, a device that idles, computing."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.analysis.advice import rules, usual
from torchstone.core import units
from torchstone.core.schema.phase import BACKWARD, DATA, DECODE, FORWARD, PREFILL


def three_questions(phases_s: Mapping[str, float], utilization: float | None) -> list[str]:
    """Return the questions with their answers. `phases_s`: name → seconds, summing to the step."""
    step_s = sum(phases_s.values())
    if step_s <= 0.0:
        return []
    data_s = phases_s.get(DATA, 0.0)
    passes_s = sum(phases_s.get(name, 0.0) for name in (PREFILL, DECODE, FORWARD, BACKWARD))
    loads, computes = data_s >= rules.LOADER.least * step_s, passes_s >= rules.COMPUTING.least * step_s
    waits = f"{100 * data_s / step_s:.0f} % of the step, {units.quantity(data_s, 's')}"
    passes = f"{100 * passes_s / step_s:.0f} % of the step"
    if utilization is None:
        idle = "not known: the device has no such gauge (it is one of accelerators)"
    else:
        low = _yes(utilization < usual.UTILIZATION[0])
        around = f"{100 * utilization:.0f} % (usual: {usual.band(usual.UTILIZATION)})"
        idle = f"{low}, {around} → batch_size up, if it is"
    return [
        f"is the I/O time high? {_yes(loads)}, {waits} → num_workers up, if it is",
        f"is the utilization low? {idle}",
        f"are forward and backward slow? {_yes(computes)}, {passes} → mixed precision (AMP), if they are",
    ]


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"

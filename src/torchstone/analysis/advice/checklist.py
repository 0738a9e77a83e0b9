"""What to have looked at before a long training begins, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.analysis.advice import rules, usual
from torchstone.analysis.advice.choices import choice_of
from torchstone.analysis.advice.curves import setting_of
from torchstone.analysis.advice.setting import Setting
from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.machine import Machine


def checklist(case: CaseSummary, cases: Sequence[CaseSummary], machine: Machine) -> list[str]:
    """Return a line an item: done, or what to type. `cases`: those measured beside it, of the same workload."""
    sizes = {c.configuration.get("batch_size") for c in cases}
    formats = {c.configuration.get("precision") for c in cases}
    workers = {c.configuration.get("num_workers") for c in cases}
    loads = case.configuration.get("feed") == "loader"
    chosen = choice_of(case, machine, ())
    lines = [
        _line("it was measured", done=chosen.throughput is not None, how="torchstone run"),
        _line(f"batch sizes compared: {_several(sizes)}", done=len(sizes) > 1, how="torchstone tune"),
    ]
    if loads:
        lines.append(
            _line(f"num_workers compared: {_several(workers)}", done=len(workers) > 1, how="tune --only num_workers")
        )
    mixed = case.configuration.get("precision")
    lines.append(_line(f"precision: {mixed}", done=mixed not in ("fp32", None) or len(formats) > 1, how="try bf16"))
    lines.append(_memory(chosen.memory_share, setting_of(case, machine)))
    rate = units.quantity(chosen.throughput, "items/s")
    lines.append(_line(f"throughput known: {rate}", done=chosen.throughput is not None, how="torchstone run"))
    return lines


def _memory(share: float | None, setting: Setting) -> str:
    if share is None:
        return "[ ] memory: how much the device has is not known"
    low, high = usual.MEMORY
    told = f"peak memory {units.quantity(share, 'ratio')} of the device's"
    if share > rules.FULL_MEMORY.least:
        return f"[ ] {told}: likely to run out; {'; '.join(rules.texts(rules.FULL_MEMORY, setting))}"
    told = f"[x] {told}, {usual.place_in(usual.MEMORY, share)}"
    if share > high:
        return f"{told}, and safe up to {100 * rules.FULL_MEMORY.least:.0f} %"
    return f"{told}: a larger batch may fit; whether it is faster is measured" if share < low else told


def _line(text: str, *, done: bool, how: str) -> str:
    return f"[x] {text}" if done else f"[ ] {text} ({how})"


def _several(values: set[Scalar]) -> str:
    return ", ".join(map(str, sorted((v for v in values if v is not None), key=lambda v: (len(str(v)), str(v))))) or "–"

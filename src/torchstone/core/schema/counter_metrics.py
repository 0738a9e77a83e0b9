"""Metrics of the CPU's hardware counters: raw, figures, and how these are shown. `metric.py` has all the others."""

from __future__ import annotations

from torchstone.core.schema.quantity import Better, Pool, Unit

_H, _L, _N = Better.HIGHER, Better.LOWER, Better.NEITHER

RAW_COUNTERS = (
    ("instructions", Unit.COUNT, _N, Pool.LAST, Pool.SUM, "instructions that the trial retired in user mode"),
    ("cpu_cycles", Unit.COUNT, _N, Pool.LAST, Pool.SUM, "CPU cycles of the trial in user mode"),
    ("cache_misses", Unit.COUNT, _N, Pool.LAST, Pool.SUM, "accesses of the trial that missed the last cache"),
)
COUNTER_FIGURES = (
    ("instructions_per_cycle", Unit.NUMBER, _H, Pool.ONLY, Pool.MEAN,
     "instructions over cycles of the CPU in user mode, in the windows"),
    ("cache_misses_per_item", Unit.NUMBER, _L, Pool.ONLY, Pool.MEAN,
     "misses of the CPU's last cache per item, in user mode, in the windows"),
    ("energy_per_step_j", Unit.JOULE, _L, Pool.ONLY, Pool.SUM, "energy over the steps of the steady windows"),
)  # fmt: skip
COUNTERS_SHOWN = (
    ("instructions_per_cycle", "instructions per cycle", None),
    ("cache_misses_per_item", "cache misses per item", None),
)  # fmt: skip
ENERGY_SHOWN = (("energy_per_step_j", "energy per step", None),)

"""A Metric: name, unit, which way is better, how it pools, one sentence, and how it is shown; and a table of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.core.schema.quantity import Better, Pool, Unit


class MetricGroup(StrEnum):
    """What a figure is about: figures of one group are shown together, groups in this order."""

    THROUGHPUT = "throughput"
    PHASES = "phases"
    RANKS = "ranks"
    LATENCY = "latency"
    START = "start"
    MEMORY = "memory"
    ENERGY = "energy"
    ROOFLINE = "roofline"
    TRAINING = "training"
    DEVICE = "device"
    RUNTIME = "runtime"

    @property
    def heading(self) -> str:
        """The name of the group, as a heading has it."""
        return {"start": "Start-up", "device": "Device and other processes"}.get(self.value, self.value.capitalize())


class Metric(msgspec.Struct, frozen=True):
    """One thing that is measured or derived: a per-trial figure of FIGURES, or the values of RAW.

    Of figures: `title`, a few words without the unit; `group`; `rank`: in a table of Cases, the highest leaves first
    where there is no room (None: it is not in that table).
    """

    name: str
    unit: Unit
    better: Better
    over_steps: Pool
    over_ranks: Pool
    meaning: str
    title: str = ""
    group: MetricGroup = MetricGroup.RUNTIME
    rank: int | None = None


_Row = tuple[str, Unit, Better, Pool, Pool, str]
Named = Mapping[MetricGroup, tuple[tuple[str, str, int | None], ...]]


def table(*rows: _Row, named: Named | None = None) -> dict[str, Metric]:
    """Return the metrics by name. `named`: the name, title and rank of each, by group; None: raw values have none."""
    if named is None:
        return {row[0]: Metric(*row) for row in rows}
    shown = {name: (title, group, rank) for group, members in named.items() for name, title, rank in members}
    return {row[0]: Metric(*row, *shown[row[0]]) for row in rows}

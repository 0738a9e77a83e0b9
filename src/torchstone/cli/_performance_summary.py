"""A sweep of trainings in a few lines: least, most and mean over its cases, and the mean at each value of an axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from torchstone.analysis.advice.performance_summary import performance_summary
from torchstone.analysis.summary import RunSummary
from torchstone.core import units
from torchstone.core.schema.performance_summary import Extent

_NAMES = {
    "training_time": "time of a step", "throughput": "throughput", "loss_convergence": "loss convergence, a step",
}  # fmt: skip


def lines(run: RunSummary) -> Iterator[str]:
    """Yield the lines of each model, data and device of which two trainings or more were measured."""
    for one in performance_summary(run):
        if one.cases < 2:
            continue
        yield f"{one.model} on {one.device}, data {one.data}, {one.cases} cases (means over cases, whatever they are)"
        for field, name in _NAMES.items():
            extent: Extent | None = getattr(one, field)
            if extent is not None:
                least, most, mean = (units.quantity(x, extent.unit) for x in (extent.min, extent.max, extent.mean))
                yield f"  {name:<26} min {least}, max {most}, mean {mean}"
                yield from _by(extent)


def _by(extent: Extent) -> Iterator[str]:
    for field, means in msgspec.structs.asdict(extent).items():
        if isinstance(means, Mapping) and len(means) > 1:
            told = ", ".join(f"{value} {units.quantity(mean, extent.unit)}" for value, mean in means.items())
            yield f"    {field.replace('_', ' ')}: {told}"

"""The pictures of a comparison: figures over batch size, losses, trainings, and each participant by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.charts.vega_lite import Picture
from torchstone.report.charts import comparison as charts
from torchstone.report.document import Chart, Part, Role, Section, Text

_GAUGES = ("utilization", "memory", "power")
_ONE_EACH = "one training a line: no intervals"
_MOST_EACH = 8  # participants with pictures of their own on a page


def comparison_pictures(
    participants: Sequence[ComparedInput], prices: Mapping[str, float] | None = None
) -> tuple[Section, ...]:
    """Return the pictures in sections of a page, those over all participants first. `prices`: as for `over_all`."""
    sections = (
        Section("Pictures over the compared", tuple(over_all(participants, prices))),
        Section("Pictures of each", tuple(_of_some(participants)), folded=True),
    )
    return tuple(section for section in sections if section.parts)


def over_all(participants: Sequence[ComparedInput], prices: Mapping[str, float] | None = None) -> Iterator[Chart]:
    """Yield the pictures that have data. `prices`: money an hour, by the letter of a participant."""
    drawn, lost = charts.fastest(charts.points(participants, prices))
    for quantity in charts.QUANTITIES:
        if (picture := _of_quantity(quantity, drawn, participants, lost)) is not None:
            says = f"{quantity.title[:1].upper()}{quantity.title[1:]}, a line for each of the compared"
            yield Chart(f"comparison_{quantity.name}", says, picture)
    if (losses := charts.losses(participants)) is not None:
        yield Chart("comparison_training_loss", "The losses of the first steps, a line a device and setting", losses)
    if (epochs := charts.epochs(participants)) is not None:
        yield Chart("comparison_epochs", "Loss and accuracy over the epochs of each training", epochs)
        gauges = [charts.curves(name, participants) for name in _GAUGES]
        order = charts.line_names(participants)
        panels = (*epochs.panels, *(panel for one in gauges for panel in charts.over_time(one, order)))
        says = "Loss and accuracy over epochs, utilization, memory and power over time, a line a training"
        yield Chart("comparative_metrics", says, Picture("Trainings compared", panels, _ONE_EACH, columns=2))


def of_each(participants: Sequence[ComparedInput]) -> Iterator[Chart]:
    """Yield every quantity of each participant's Cases over batch size."""
    drawn = charts.points(participants)
    for one in participants:
        if (picture := charts.of_device(one.label, drawn)) is not None:
            yield Chart(f"{folder_name(one)}_performance", f"Every figure of {one.label} over batch size", picture)


def _of_some(participants: Sequence[ComparedInput]) -> Iterator[Part]:
    """Yield the pictures of as many participants as a page has room for; then of whom there are none."""
    yield from of_each(participants[:_MOST_EACH])
    if lost := [one.letter for one in participants[_MOST_EACH:]]:
        yield Text(f"of {lost[0]} to {lost[-1]} there are no pictures here: --figures draws those of each", Role.DETAIL)


def folder_name(one: ComparedInput) -> str:
    """Return a name for the files of a participant: "A_RTX_4090"."""
    return f"{one.letter}_{re.sub(r'[^A-Za-z0-9]+', '_', one.label).strip('_')[:60] or 'run'}"


def _of_quantity(
    quantity: charts.Quantity, drawn: Sequence[charts.Point], of: Sequence[ComparedInput], lost: int
) -> Picture | None:
    """Return the picture of one quantity: measured cases over batch size, trainings to an end over time.

    `lost`: so many lines are not among those drawn.
    """
    curves = charts.curves(quantity.name, of)
    over_time = {curve.run_id for curve in curves}
    rest = [point for point in drawn if point.row["run_id"] not in over_time]
    panels = (
        *charts.over_batch_size(quantity, rest), *charts.over_time(curves, charts.line_names(of)),
    )  # fmt: skip
    left_out = f"the first line and the fastest; {lost} more are in the tables" if lost else ""
    words = "; ".join(filter(None, (charts.interval_words(panels), left_out)))
    return Picture(quantity.name.capitalize(), panels, words) if panels else None

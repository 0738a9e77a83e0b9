"""A diagnosis as a Document: the cause first, its evidence, what was tried, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torchstone.core import units
from torchstone.core.schema.case import Task
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import Cause, Diagnosis, Place, Tried
from torchstone.report.charts.ratios import Ratio, forest
from torchstone.report.diagnosis_wording import (
    answer_words,
    gain_words,
    in_own_code,
    limit_words,
    live_words,
    memory_words,
    open_remedies,
)
from torchstone.report.document import (
    Chart,
    Column,
    Command,
    Document,
    Facts,
    Part,
    Role,
    Section,
    Table,
    Text,
    paragraphs,
)
from torchstone.workflows.diagnose.ranking import refuted

_WORTH = 0.05  # of the step: causes below are not worth a line
_MOST_OBSERVATIONS = 6
_FASTER = 1.2  # times the present rate in a first look, which is one short trial

Row = tuple[str, str]


def diagnosis_document(diagnosis: Diagnosis, reports: Sequence[Path] = (), record: str | None = None) -> Document:
    """Return a diagnosis. `reports`, `record`: files that were written."""
    written = (*_named("reports", [str(path) for path in reports]), *_named("record", [record] if record else []))
    return Document(f"Diagnosis of {diagnosis.about}", (*_parts(diagnosis), *_facts(written)))


def _parts(diagnosis: Diagnosis) -> Iterator[Part]:
    yield Text(answer_words(diagnosis), Role.HEADLINE)
    yield from paragraphs(list(_about(diagnosis)))
    if diagnosis.disturbance is not None:
        yield Text("stop them, or wait until they are done, and diagnose again", Role.DETAIL)
        return
    if not diagnosis.causes:
        yield from _facts([
            ("cause", "nothing found: the step was not measured in its phases, or has none"),
            *_observations(diagnosis),
        ])  # fmt: skip
        return
    yield from _facts([
        *_first(diagnosis.causes[0], diagnosis.tried), *_others(diagnosis.causes[1:], diagnosis.tried),
    ])  # fmt: skip
    yield from _tried(diagnosis)
    yield from _pictures(diagnosis)
    yield from _facts([*_left_out(diagnosis.tried), *_gain(diagnosis)])
    if diagnosis.command is not None:
        yield Text("run with these settings:")
        yield Command(diagnosis.command)
    yield from _facts(list(_observations(diagnosis)))


def _about(diagnosis: Diagnosis) -> Iterator[str]:
    case = diagnosis.case
    what = f"{case.workload.task} {case.workload.model}, batch_size {case.configuration.get('batch_size')}"
    rate = ""
    if diagnosis.throughput is not None:
        step = units.quantity(diagnosis.step_s, "s")
        rate = f": {units.significant(diagnosis.throughput, 4)} {case.workload.item}s/s, {step} a step"
    yield f"{what}, on {case.placement}{rate}"
    if diagnosis.fed is not None:
        yield diagnosis.fed
    if diagnosis.unmeasured is not None:
        yield f"from its record alone: {diagnosis.unmeasured}"


def _first(cause: Cause, tried: Sequence[Tried]) -> Iterator[Row]:
    yield "cause", cause.title
    yield "", f"{cause.kind} bottleneck, {limit_words(cause)}"
    yield from _named("evidence", cause.evidence)
    yield from _named("where", [_place(place) for place in cause.where])
    if cause.usual:
        yield "usually", ", ".join(cause.usual)
    if remedies := open_remedies(cause, tried):
        yield "try", f"{'; '.join(remedies)} (not measured)"
    yield from _named("in code", in_own_code(cause, tried))


def _others(causes: Sequence[Cause], tried: Sequence[Tried]) -> Iterator[Row]:
    told = [cause for cause in causes if cause.share >= _WORTH]
    also = [f"{c.title} ({100 * c.share:.0f} % of the step)" for c in told if not refuted(c, tried)]
    yield from _named("also", also)
    no = [f"{c.title}: its remedy was measured, without effect" for c in told if refuted(c, tried)]
    yield from _named("ruled out", no)


def _place(place: Place) -> str:
    often = f", {place.runs_per_step:,.0f} times a step" if place.runs_per_step is not None else ""
    return f"{place.file}:{place.line}, {100 * place.share:.0f} % of the step{often}: {place.code}"


def _tried(diagnosis: Diagnosis) -> Iterator[Part]:
    """Yield the table of what was tried, where anything was."""
    applied = diagnosis.applied
    shown = [one for one in diagnosis.tried if one.gain is not None]
    if applied is not None and applied not in shown and applied.gain is not None:
        shown.append(applied)
    if not shown:
        return
    names = tuple(f"{one.what_if.name}{' (ceiling)' * one.what_if.ceiling}" for one in shown)
    yield Table((
        Column("remedy", names, left=True),
        Column("speed-up", tuple(gain_words(one) for one in shown), left=True),
        Column("peak memory", tuple(memory_words(one) for one in shown), rank=1),
        Column("result", tuple(one.loss or units.MISSING for one in shown), rank=2, left=True),
        Column("cause", tuple(one.cause for one in shown), rank=3, left=True),
    ))  # fmt: skip


def _pictures(diagnosis: Diagnosis) -> Iterator[Part]:
    """Yield how many times as fast each remedy makes the step, with its interval; nothing where none was measured."""
    every = (*diagnosis.tried, diagnosis.applied)
    measured = {id(one): one for one in every if one is not None and one.gain is not None}
    rows = tuple(
        Ratio(f"{one.what_if.name}{' (ceiling)' * one.what_if.ceiling}", "", gain.value, gain.low, gain.high,
              str(one.verdict or Judgement.UNCLEAR))
        for one in measured.values() if (gain := one.gain) is not None
    )  # fmt: skip
    if rows:
        level = max(one.gain.level for one in measured.values() if one.gain is not None)
        picture = forest(rows, 0.0, level, "Times as fast with each remedy")
        says = "How many times as fast each remedy makes the step, with its confidence interval"
        yield Section("Pictures", (Chart("remedies", says, picture),))


def _left_out(tried: Sequence[Tried]) -> Iterator[Row]:
    """Yield what was not measured, and why: what has the same reason in one row."""
    rest: dict[str, list[str]] = {}
    for one in tried:
        if one.gain is None and one.message:
            rest.setdefault(one.message, []).append(one.what_if.name)
    yield from _named("others", [f"{'; '.join(names)}: {why}" for why, names in rest.items()])


def _gain(diagnosis: Diagnosis) -> Iterator[Row]:
    applied, first = diagnosis.applied, diagnosis.causes[0]
    if applied is not None and applied.gain is not None:
        known = f"{gain_words(applied)} times as fast with {applied.what_if.name}, measured live"
        yield "gain", live_words(applied) if applied.gain.is_wide else known
        if applied.loss is not None and applied.loss != "the same":
            still = "it still learns" if diagnosis.case.workload.task == Task.TRAIN else "its answers are still good"
            yield "", f"it changes what is computed ({applied.loss}): check that {still}"
    elif first.own_code:
        yield "gain", f"only a change of the code brings it; {limit_words(first)}"
    elif any(one.gain is None and (one.first_look or 0.0) > _FASTER for one in diagnosis.tried):
        yield "gain", "not known: what was faster at a first look was not measured live; --budget 5m gives it the time"
    elif any(one.gain is not None or one.first_look is not None for one in diagnosis.tried):
        yield "gain", "no setting that was tried is faster"


def _observations(diagnosis: Diagnosis) -> Iterator[Row]:
    yield from _named("limits", diagnosis.limits[:1])
    yield from _named("note", [one.seen for one in diagnosis.pattern[:_MOST_OBSERVATIONS]])


def _named(name: str, values: Sequence[str]) -> Iterator[Row]:
    """Yield a row a value; the name stands at the first."""
    yield from ((name if number == 0 else "", value) for number, value in enumerate(values))


def _facts(rows: Sequence[Row]) -> Iterator[Part]:
    if rows:
        yield Facts(tuple(rows))

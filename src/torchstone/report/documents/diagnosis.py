"""A diagnosis as a Document: the cause first, its evidence, what was tried, what to type, and all else that is known.

The one page of it: `diagnose`, `show`, reports, `serve` and notebooks draw this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torchstone.analysis.advice.causes import refuted
from torchstone.core import units
from torchstone.core.schema.case import Task, model_name
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import (
    OUT_OF_MEMORY,
    SAME_LOSS,
    Attached,
    Cause,
    ChecklistItem,
    CodePlace,
    Diagnosis,
    ProcessRole,
    SampledLine,
    TriedRemedy,
)
from torchstone.core.stats.disturbance import disturbance_words
from torchstone.report.charts.forest_plot import Ratio, forest
from torchstone.report.diagnosis_messages import TO_DO, advice_text, in_code, text, texts
from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Fields,
    Part,
    Role,
    Section,
    Table,
    Text,
    paragraphs,
)
from torchstone.report.documents.feed import data_words, fed_by

FILE = "performance_report.md"
_WORTH = 0.05  # of the step: causes below are not worth a line
_FASTER = 1.2  # times the present rate in a first look, which is one short trial
_TOLD = 20.0  # times as fast: a bound beyond says no more than that there is next to nothing else
_VERDICTS = {
    Judgement.SAME: "no difference",
    Judgement.UNCLEAR: "not certain",
    Judgement.WORSE: "slower",
    Judgement.BETTER: "",
    Judgement.NOT_COMPARABLE: "",
}

Row = tuple[str, str]
_MOST_SEEN = 2  # lines of evidence beside the answer


def diagnosis_document(diagnosis: Diagnosis, report: Path | None = None) -> Document:
    """Return a diagnosis alone. `report`: the page that was written."""
    parts = tuple(diagnosis_parts(diagnosis, report))
    if more := tuple(diagnosis_rest(diagnosis)):
        how = f"torchstone show {diagnosis.run_id} --full" if diagnosis.unmeasured is None else "--json"
        parts = (*parts, Section("everything else", more, folded=True, how=how))
    return Document(f"Diagnosis of {diagnosis.about}", parts)


def diagnosis_parts(diagnosis: Diagnosis, report: Path | None = None, doubt: str = "") -> Iterator[Part]:
    """Yield the answer of a diagnosis. `report`: the page that was written; `doubt`: what follows the answer."""
    yield Text(f"{_answer(diagnosis)}{doubt}", Role.HEADLINE)
    yield from paragraphs(list(_about(diagnosis)))
    if diagnosis.is_hidden:
        yield Text("stop them, or wait until they are done, and diagnose again", Role.DETAIL)
        return
    if diagnosis.causes:
        first, *others = diagnosis.causes
        seen = [disturbance_words([diagnosis.disturbance])] if diagnosis.disturbance is not None else []
        meanwhile = _named("meanwhile", seen)
        yield from _facts([*_cause(first, diagnosis, _MOST_SEEN), *_also(others, diagnosis.tried), *meanwhile])
        yield from _tried(diagnosis)
        yield from _facts(list(_gain(diagnosis)))
        if diagnosis.command is not None:
            yield Text("run with these settings:")
            yield CommandLine(diagnosis.command)
        yield from _pictures(diagnosis)
    else:
        yield from _facts([("cause", "nothing found: the step was not measured in its phases, or has none")])
    if diagnosis.attached is not None:
        yield from _attached(diagnosis.attached)
    if not diagnosis.causes or diagnosis.causes[0].sound:
        yield from _facts(list(_limits(diagnosis)))
    yield from _facts(list(_named("report", [str(report)] if report else [])))


def diagnosis_rest(diagnosis: Diagnosis) -> Iterator[Part]:
    """Yield what is folded: how the case is fed, usual causes, what was not measured, notes, other causes, checks."""
    if diagnosis.is_hidden:
        return
    yield from paragraphs(tuple(_fed(diagnosis)))
    told = [("kind", _kind(cause)) for cause in diagnosis.causes[:1]]
    told += [("evidence", text(one)) for cause in diagnosis.causes[:1] for one in cause.evidence[_MOST_SEEN:]]
    told += [
        row for cause in diagnosis.causes[:1] if _is_helped(cause, diagnosis) for row in _untried(cause, diagnosis)
    ]
    told += [("usually", texts(cause.usual, ", ")) for cause in diagnosis.causes[:1] if cause.usual]
    limits = _limits(diagnosis) if diagnosis.causes and not diagnosis.causes[0].sound else ()
    yield from _facts([*told, *_left_out(diagnosis.tried), *limits])
    yield from (Text(advice_text(one), Role.NOTE) for one in diagnosis.pattern)
    for cause in diagnosis.causes[1:]:
        usual = _named("usually", [texts(cause.usual, ", ")] if cause.usual else [])
        whole = [("kind", _kind(cause)), *_cause(cause, diagnosis), *usual]
        yield Section(text(cause.title), tuple(_facts(whole)))
    if diagnosis.questions:
        asked = paragraphs([f"{text(one)}." for one in diagnosis.questions], Role.DETAIL)
        yield Section("Slow training: three questions", asked)
    if diagnosis.checklist:
        yield Section("Before a long training", paragraphs(list(map(_check, diagnosis.checklist)), Role.DETAIL))


def _limits(diagnosis: Diagnosis) -> Iterator[Row]:
    yield from _named("limits", [text(one) for one in diagnosis.limits])


def _check(one: ChecklistItem) -> str:
    return text(one) if one.done or one.id not in TO_DO else f"{text(one)} ({TO_DO[one.id]})"


# ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────


def _answer(diagnosis: Diagnosis) -> str:
    """Return the cause with what it costs, and what was measured to help, in two sentences."""
    if diagnosis.is_hidden:
        return _busy(diagnosis)
    if not diagnosis.causes:
        return "No cause was found: the step was not measured in its phases, or has none."
    first, applied = diagnosis.causes[0], diagnosis.applied
    title = text(first.title)
    named = f"{title[:1].upper()}{title[1:]}"
    if applied is None or applied.gain is None:
        return f"{named}: {limit_words(first)}."
    # What was measured answers what the bound by its share only estimates.
    live = _live(applied)
    other = next((text(one.title) for one in diagnosis.causes[1:] if one.id == applied.cause), None)
    if other is not None:  # else its remedy is read as the first cause's
        live = f"What was tried against another cause ({other}): {live[:1].lower()}{live[1:]}"
    return f"{named}: {share_words(first)}. {live}."


def _busy(diagnosis: Diagnosis) -> str:
    """Return what kept the machine busy, and what a first look showed all the same."""
    seen = disturbance_words([diagnosis.disturbance] if diagnosis.disturbance is not None else [])
    told = f"Each time the step was measured, {seen}: nothing can be diagnosed."
    first = next((cause for cause in diagnosis.causes if cause.id != "neighbours"), None)
    return told if first is None else f"{told} A first look beside them showed: {text(first.title)}."


def _live(tried: TriedRemedy) -> str:
    """Return what a remedy was measured to gain, as a clause; that it is not known where the interval is too wide."""
    if tried.gain is not None and tried.gain.is_wide:
        return f"What {tried.what_if.name} gains is not known: its interval is wider than ±50 %"
    level = (
        f" ({100 * tried.gain.level:g} % confidence)" if tried.gain is not None and tried.gain.low is not None else ""
    )
    return f"With {tried.what_if.name} it was measured {gain_words(tried)} times as fast{level}"


def _about(diagnosis: Diagnosis) -> Iterator[str]:
    case, rate = diagnosis.case, ""
    what = f"{case.workload.task} {case.workload.model}, batch_size {case.configuration.get('batch_size')}"
    if case.workload.is_program:
        settings = "".join(f", {name} {value}" for name, value in case.configuration.items())
        what = f"{case.workload.task} {model_name(case.workload.model)}{settings}"
    if diagnosis.throughput is not None:
        step = units.quantity(diagnosis.step_s, "s")
        rate = f": {units.significant(diagnosis.throughput, 4)} {case.workload.item}s/s, {step} a step"
    yield f"{what}, on {case.placement}{rate}"
    if diagnosis.unmeasured is not None:
        yield f"from its record alone: {text(diagnosis.unmeasured)}"


def _fed(diagnosis: Diagnosis) -> Iterator[str]:
    case = diagnosis.case
    fed = fed_by(case.workload, case.configuration, diagnosis.fed) if diagnosis.throughput is not None else None
    if fed is not None:
        yield f"data {data_words(case.workload, diagnosis.fed)}, {fed}"


# ── causes ──────────────────────────────────────────────────────────────────────────────────────────────────


def _cause(cause: Cause, diagnosis: Diagnosis, most: int | None = None) -> Iterator[Row]:
    yield from _named("evidence", [text(one) for one in cause.evidence[:most]])
    yield from _named("where", [_place(place) for place in cause.where])
    if most is None or not _is_helped(cause, diagnosis):
        yield from _untried(cause, diagnosis)
    helped = _axes([one for one in diagnosis.tried if one.helps])
    yield from _named("in code", [how for one in cause.remedies if one.axis in helped and (how := in_code(one))])


def _untried(cause: Cause, diagnosis: Diagnosis) -> Iterator[Row]:
    measured = _axes([one for one in diagnosis.tried if one.gain is not None or one.first_look is not None])
    if remedies := [one for one in cause.remedies if one.axis not in measured]:
        yield "try", f"{texts(remedies, '; ')} (not measured)"


def _is_helped(cause: Cause, diagnosis: Diagnosis) -> bool:
    """Say whether a remedy of the cause was measured to help: advice that nothing measured is then folded."""
    return any(one.helps and one.cause == cause.id for one in diagnosis.tried)


def _kind(cause: Cause) -> str:
    return f"{cause.kind} bottleneck, {limit_words(cause)}"


def share_words(cause: Cause) -> str:
    """Return how much of the step a cause explains."""
    return "no step came to its end" if cause.id == OUT_OF_MEMORY else f"{100 * cause.share:.0f} % of the step"


def limit_words(cause: Cause) -> str:
    """Return how much of the step a cause explains, and what that allows."""
    share = share_words(cause)
    if cause.id == OUT_OF_MEMORY or cause.sound:
        return share
    bound = cause.bound
    if bound.value >= _TOLD:
        return f"{share}, next to nothing else is left"
    if cause.own_code:
        most = f"about {_times(bound.value)} times as fast without it, at most {_times(bound.high or bound.value)}"
        return f"{share}, {most} (estimated from its share, not measured)"
    return f"{share}, up to {_times(bound.value)} times as fast without it"


def _place(place: CodePlace) -> str:
    often = f", {place.runs_per_step:,.0f} times a step" if place.runs_per_step is not None else ""
    return f"{place.file}:{place.line}, {100 * place.share:.0f} % of the step{often}: {place.code}"


def _also(causes: Sequence[Cause], tried: Sequence[TriedRemedy]) -> Iterator[Row]:
    told = [cause for cause in causes if cause.share >= _WORTH]
    also = [f"{text(c.title)} ({100 * c.share:.0f} % of the step)" for c in told if not refuted(c, tried)]
    yield from _named("also", also)
    no = [f"{text(c.title)}: its remedy was measured, without effect" for c in told if refuted(c, tried)]
    yield from _named("ruled out", no)


# ── from outside ────────────────────────────────────────────────────────────────────────────────────────────

_MOST_LINES = 8  # that are shown where people read from top to bottom
_DOES = {ProcessRole.TRAINING: "steps", ProcessRole.LOADER: "loads", ProcessRole.OTHER: "other"}


def _attached(seen: Attached) -> Iterator[Part]:
    """Yield the lines of a program that was looked at from outside, its processes, and what the looking cost."""
    yield from _sampled_lines("of the step", seen.lines)
    yield from _sampled_lines("of loading", seen.loader_lines)
    if len(seen.processes) > 1:
        known = [[units.MISSING if one is None else f"{one:.3g}" for one in (p.rank, p.cores)] for p in seen.processes]
        yield Table(
            (
                Column("process", tuple(str(one.pid) for one in seen.processes)),
                Column("does", tuple(_DOES[one.role] for one in seen.processes), left=True),
                Column("rank", tuple(rank for rank, _ in known), rank=2),
                Column("cores busy", tuple(cores for _, cores in known)),
                Column("command", tuple(one.command for one in seen.processes), rank=1, left=True, shorten=True),
            ),
            most=_MOST_LINES,
        )
    if seen.others_cores is not None:
        yield Text(f"other programs kept {seen.others_cores:.1f} cores busy")
    if seen.utilization is not None:
        yield Text(f"the device was in use {100 * seen.utilization:.0f} % of the time")
    if seen.ended:
        yield Text("the program ended meanwhile")
    took = f"py-spy took {seen.cost_s:.2g} s of CPU time"
    paused = "it was never paused" if not seen.paused_s else f"it was paused {seen.paused_s:.2g} s"
    yield Text(f"{seen.samples} samples in {seen.elapsed_s:.0f} s, from outside: {took}; {paused}", Role.DETAIL)


def _sampled_lines(of: str, lines: Sequence[SampledLine]) -> Iterator[Part]:
    if lines:
        yield Table(
            (
                Column(of, tuple(f"{100 * one.share:.0f} %" for one in lines)),
                Column("95 % interval", tuple(map(_ends, lines)), of=0, left=True),
                Column("phase", tuple(one.phase for one in lines), rank=1, left=True),
                Column("line", tuple(f"{one.file}:{one.line}" for one in lines), left=True, shorten=True),
                Column("code", tuple(one.code for one in lines), rank=2, left=True, shorten=True),
            ),
            most=_MOST_LINES,
        )


def _ends(line: SampledLine) -> str:
    if line.low is None or line.high is None:
        return units.MISSING
    return f"{100 * line.low:.0f} to {100 * line.high:.0f} %"


# ── remedies ────────────────────────────────────────────────────────────────────────────────────────────────


def _tried(diagnosis: Diagnosis) -> Iterator[Part]:
    """Yield the table of what was tried, where anything was."""
    shown = _measured(diagnosis)
    if not shown:
        return
    causes = tuple(one.cause for one in shown)
    yield Table.of(
        Column("remedy", tuple(map(_remedy, shown)), left=True),
        Column("speed-up", tuple(gain_words(one) for one in shown), left=True),
        Column("peak memory", tuple(memory_words(one) for one in shown), rank=1),
        Column(
            "losses",
            tuple(text(one.loss) if one.loss is not None else units.MISSING for one in shown),
            rank=2,
            left=True,
        ),
        *((Column("cause", causes, rank=3, left=True),) if len(set(causes)) > 1 else ()),
    )


def _measured(diagnosis: Diagnosis) -> list[TriedRemedy]:
    shown, applied = [one for one in diagnosis.tried if one.gain is not None], diagnosis.applied
    return [*shown, applied] if applied is not None and applied.gain is not None and applied not in shown else shown


def _remedy(tried: TriedRemedy) -> str:
    return f"{tried.what_if.name} (ceiling)" if tried.what_if.ceiling else tried.what_if.name


def _pictures(diagnosis: Diagnosis) -> Iterator[Part]:
    """Yield how many times as fast each remedy makes the step, with its interval; nothing where none was measured."""
    measured = _measured(diagnosis)
    rows = tuple(
        Ratio(_remedy(one), "", gain.value, gain.low, gain.high, str(one.verdict or Judgement.UNCLEAR))
        for one in measured
        if (gain := one.gain) is not None
    )
    if rows:
        level = max(one.gain.level for one in measured if one.gain is not None)
        picture = forest(rows, 0.0, level, "Times as fast with each remedy")
        says = "How many times as fast each remedy makes the step, with its confidence interval"
        yield Section("Pictures", (Chart("remedies", says, picture),))


def _left_out(tried: Sequence[TriedRemedy]) -> Iterator[Row]:
    """Yield what was not measured, and why: what has the same reason in one row."""
    rest: dict[str, list[str]] = {}
    for one in tried:
        if one.gain is None and one.message is not None:
            rest.setdefault(text(one.message), []).append(one.what_if.name)
    yield from _named("others", [f"{'; '.join(names)}: {why}" for why, names in rest.items()])


def _gain(diagnosis: Diagnosis) -> Iterator[Row]:
    applied, first = diagnosis.applied, diagnosis.causes[0]
    if applied is not None and applied.gain is not None:  # which the answer says
        if applied.loss is not None and applied.loss.id != SAME_LOSS:
            still = "it still learns" if diagnosis.case.workload.task == Task.TRAIN else "its answers are still good"
            yield "gain", f"it changes what is computed ({text(applied.loss)}): check that {still}"
    elif first.own_code:
        yield "gain", f"only a change of the code brings it; {limit_words(first)}"
    elif any(one.gain is None and (one.first_look or 0.0) > _FASTER for one in diagnosis.tried):
        yield "gain", "not known: what was faster at a first look was not measured; --budget 5m gives it the time"
    elif any(one.gain is not None or one.first_look is not None for one in diagnosis.tried):
        yield "gain", "no setting that was tried is faster"


def gain_words(tried: TriedRemedy) -> str:
    """Return the gain with its interval: "2.13 [2.02, 2.24]"; a dash where there is none."""
    gain = tried.gain
    if gain is None:
        return units.MISSING
    told = units.MISSING if gain.is_wide else _times(gain.value)
    if gain.low is not None and gain.high is not None and not gain.is_wide:
        told += f" [{_times(gain.low)}, {_times(gain.high)}]"
    verdict = tried.verdict or Judgement.UNCLEAR
    if verdict == Judgement.BETTER and gain.low is not None and gain.low <= 1.0:
        verdict = Judgement.UNCLEAR  # faster in its comparison, by less than occasions differ
    return f"{told} {_VERDICTS.get(verdict, '')}".rstrip()


def memory_words(tried: TriedRemedy) -> str:
    """Return the peak memory and how it changes: "1.2 GiB (+12 %)"."""
    if tried.memory_bytes is None:
        return units.MISSING
    told = units.quantity(tried.memory_bytes, "bytes")
    return told if tried.memory_ratio is None else f"{told} ({100 * (tried.memory_ratio - 1.0):+.0f} %)"


def _axes(tried: Sequence[TriedRemedy]) -> set[str]:
    heap = {"heap" for one in tried if one.what_if.heap is not None}
    return {axis for one in tried for axis in one.what_if.settings} | heap


def _times(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else units.significant(value, 3)


def _named(name: str, values: Sequence[str]) -> Iterator[Row]:
    """Yield a row a value; the name stands at the first."""
    yield from ((name if number == 0 else "", value) for number, value in enumerate(values))


def _facts(rows: Sequence[Row]) -> Iterator[Part]:
    if rows:
        yield Fields(tuple(rows))

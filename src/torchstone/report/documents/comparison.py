"""A comparison of stored runs as a Document: the answer, what stands against it, the ratios; all else is folded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.compare.compare import (
    ALPHA,
    ComparedRuns,
    ComparisonRequest,
    Equivalence,
    ItemTimeRatio,
    JudgedFigure,
    Reproduced,
    compare,
    item_time_ratios,
)
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import ComparedInput, uncompared_cases
from torchstone.analysis.compare.runtimes import RuntimeRatio, runtime_ratios, specifications
from torchstone.analysis.compare.task_answers import TaskAnswer, TaskResult, mean_ratio, task_answers
from torchstone.core import units
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.comparison import Comparison, Differing, Judgement
from torchstone.core.schema.estimate import Estimate, Finding
from torchstone.report.charts import comparison as charts
from torchstone.report.charts.forest_plot import Ratio, ratios_chart
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import Chart, Column, Document, Fields, Part, Role, Section, Table, Text, paragraphs
from torchstone.report.documents.cost import price_text
from torchstone.report.documents.run_answer import PURPOSES

_TITLES = {
    "throughput": "THROUGHPUT ANALYSIS",
    "latency": "LATENCY",
    "start": "START-UP",
    "memory": "MEMORY",
    "energy": "ENERGY",
    "cost": "COST",
}
_WORDS = {Judgement.NOT_COMPARABLE: "not comparable"}
_MOST, _MOST_ROWS = 10, 24  # lines of a list, rows of a table
_MOST_REFUSED, _MOST_NOTED = 3, 3  # lines beside the answer
_MOST_NAMED = 3  # Cases that are compared with nothing
_AGAIN = ("step_time_mean", "token_throughput", "latency_per_item_s")  # what other figures of their block say already


def compared_document(participants: Sequence[ComparedInput], asked: ComparisonRequest) -> Document:
    """Return the report that compares these, with its pictures. Raises UsageError as `compare` does."""
    return comparison_document(compare(participants, asked), pictures=comparison_pictures(participants))


def comparison_document(compared: ComparedRuns, written: Sequence[str] = (), pictures: Sequence[Part] = ()) -> Document:
    """Return the answer, what makes it less fair, and the ratio of each case; everything else is folded.

    `written`: the files that were made of it; `pictures`: what stands below the ratios.
    """
    baseline, *others = (one.label for one in compared.participants)
    sources = [price_text(letter, one.price, one.currency) for letter, one in compared.request.offers.items()]
    parts = (*_parts(compared, written, pictures), *paragraphs(sources, Role.NOTE))
    return Document(f"{', '.join(others)} against {baseline}", parts)


def _parts(compared: ComparedRuns, written: Sequence[str], pictures: Sequence[Part]) -> Iterator[Part]:
    yield from _headline(compared)
    notes, differing = tuple(_notes(compared)), tuple(_differing(compared))
    unfair = tuple(line for line, matters in differing if matters)
    yield from paragraphs(tuple(map(_of_runtimes, runtime_ratios(compared)))[:_MOST_NOTED])
    yield from paragraphs((*notes, *unfair)[:_MOST_NOTED], Role.NOTE)
    for task in dict.fromkeys(one.task for one in compared.judged):
        yield from _ratios(compared, task)
    yield from _forests(compared, is_first=True)
    yield from pictures
    if written:
        yield Fields(tuple(("written", file) for file in written))
    blocks: tuple[Part, ...] = (
        _sides(compared),
        *_blocks(compared),
        *_lines("NOTES", notes),
        *_lines("WHAT ELSE DIFFERS", [line for line, _ in differing]),
        *paragraphs(tuple(_how(compared))),
        Section("ratios of the other figures", (*_forests(compared, is_first=False),)),
    )
    yield Section("everything else", (Section("BENCHMARK COMPARISON", blocks),), folded=True)


def _ratios(compared: ComparedRuns, task: str) -> Iterator[Section]:
    """Yield what was asked: the ratio of each case by the figure that says which is faster."""
    metric = primary(task)
    rows = [one for one in compared.judged if (one.task, one.comparison.metric) == (task, metric)]
    if rows := [one for one in rows if one.comparison.ratio is not None]:
        alone = f"{rows[0].case}, " if len({one.case for one in rows}) == 1 else ""
        title = f"{alone}{_figure(rows[0])}, {rows[0].unit}"
        yield Section(title, (Table(_columns(rows, compared, titled=True), most=_MOST_ROWS),))


def _blocks(compared: ComparedRuns) -> Iterator[Section]:
    times = (*map(_of_runtimes, runtime_ratios(compared)), *map(_of_items, item_time_ratios(compared)))
    yield from _lines("SPEEDUP ANALYSIS", times)
    for block, title in _TITLES.items():
        rows = [one for one in compared.judged if one.block == block and one.comparison.ratio is not None]
        if rows:
            yield _figures(title, rows, compared)


def _headline(compared: ComparedRuns) -> Iterator[Text]:
    found = task_answers(compared)
    for answer in found:
        yield Text(f"For {purpose(answer)}: {answer_words(answer, compared)}.", Role.HEADLINE)
    refused = [one for one in compared.judged if one.comparison.verdict == Judgement.NOT_COMPARABLE]
    if not found and not refused:
        yield Text("Which is faster is not known: no rate is known of both.", Role.HEADLINE)
    for place, one in enumerate(refused[:_MOST_REFUSED]):
        told = f"Not comparable: {one.case}, {_pair(one.comparison, compared)}: {one.comparison.why_text}"
        yield Text(told, Role.BODY if found or place else Role.HEADLINE)
    if len(refused) > _MOST_REFUSED:
        yield Text(f"Not comparable: {len(refused) - _MOST_REFUSED} more")


def _letters(compared: ComparedRuns) -> dict[str, str]:
    return {one.label: one.letter for one in compared.participants}


def _pair(found: Comparison, compared: ComparedRuns) -> str:
    letters = _letters(compared)
    return f"{letters[found.candidate.label]} vs {letters[found.baseline.label]}"


def _lines(title: str, lines: Sequence[str]) -> Iterator[Section]:
    """Yield a section of these lines, if there are any: the first ones, and the rest folded."""
    if lines:
        rest = paragraphs(lines[_MOST:])
        more = (Section(f"{len(rest)} more", rest, folded=True),) if rest else ()
        yield Section(title, (*paragraphs(lines[:_MOST]), *more))


# ── who is compared ─────────────────────────────────────────────────────────────────────────────────────────


def _sides(compared: ComparedRuns) -> Table:
    facts = specifications(compared)
    columns = [Column("", tuple(name for name, _ in facts), left=True)]
    for place, one in enumerate(compared.participants):
        title = f"[BENCHMARK {place + 1}] {one.letter}{'' if place else ' (baseline)'}"
        columns.append(Column(title, tuple(values[place] for _, values in facts), left=True))
    return Table(tuple(columns))


def _of_runtimes(one: RuntimeRatio) -> str:
    """Return the ratio of two total runtimes. Each was taken once, so there is no interval to it."""
    what = f"{one.candidate} vs {one.baseline}, {one.case}, total runtime"
    times = [units.quantity(seconds, "s", 4) for seconds in (one.candidate_s, one.baseline_s)]
    told = f"{what}: time ratio {units.significant(one.ratio, 3)} ({times[0]} and {times[1]})"
    if not one.same_work:
        return f"{told}, not of the same work: {one.epochs[1]} epochs and {one.epochs[0]}"
    return f"{told}, faster: {one.faster or 'neither'}, one run each: no interval"


def _of_items(one: ItemTimeRatio) -> str:
    faster = one.faster or ("neither" if one.verdict == Judgement.SAME else "unclear")
    ratio = units.ratio(one.ratio, one.low, one.high)
    return f"{one.candidate} vs {one.baseline}, {one.case}, per item: time ratio {ratio}, faster: {faster}"


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────


def _figures(title: str, rows: Sequence[JudgedFigure], compared: ComparedRuns) -> Section:
    kept = [one for one in rows if one.comparison.metric not in _AGAIN]
    again = [one for one in rows if one.comparison.metric in _AGAIN] if kept else []
    parts: list[Part] = [Table(_columns(kept or rows, compared), most=_MOST_ROWS)]
    if again:
        parts.append(Section("the same in other units", (Table(_columns(again, compared)),), folded=True))
    return Section(title, tuple(parts))


def _columns(rows: Sequence[JudgedFigure], compared: ComparedRuns, *, titled: bool = False) -> tuple[Column, ...]:
    """Return the columns of a table of figures. `titled`: its title names the figure."""
    letters, several = _letters(compared), len(compared.participants) > 2
    columns: list[Column] = []
    if len({one.case for one in compared.judged}) > 1:
        title, names = _short(tuple(one.case for one in rows))
        shown = ("" if name == above else name for name, above in zip(names, (None, *names), strict=False))
        columns.append(Column(title, tuple(shown), left=True))
    if not titled:
        columns.append(Column("figure", tuple(map(_figure, rows)), left=True))
    if several:
        columns.append(Column("side", tuple(letters[one.comparison.candidate.label] for one in rows)))
    base, other = compared.participants[0].letter, "candidate" if several else compared.participants[1].letter
    for title, candidate in ((base, False), (other, True)):
        columns.append(Column(title, tuple(_value(one, candidate=candidate) for one in rows), 1))
        columns.append(Column("±", tuple(_around(one, candidate=candidate) for one in rows), of=len(columns) - 1))
    verdicts = tuple(_WORDS.get(one.comparison.verdict, str(one.comparison.verdict)) for one in rows)
    columns.append(Column("ratio", tuple(_ratio(one.comparison) for one in rows)))
    columns.append(Column("verdict", verdicts, left=True))
    columns.append(Column("more trials", tuple(str(one.comparison.trials_to_settle or "") for one in rows), 4))
    return tuple(columns)


def _short(cases: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return what all of these cases begin with, and what tells them apart: "train cnn, batch_size" and "8", "16"."""
    words = [case.split(" ") for case in cases]
    same = 0
    while all(len(each) > same + 1 and each[same] == words[0][same] for each in words):
        same += 1
    return " ".join(words[0][:same]) or "case", [" ".join(each[same:]) for each in words]


def _figure(one: JudgedFigure) -> str:
    name = one.comparison.metric
    for suffix in ("_s", "_bytes", "_j", "_w", "_mean"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def _value(one: JudgedFigure, *, candidate: bool) -> str:
    value = one.candidate_value if candidate else one.baseline_value
    if value is None:
        return units.MISSING
    return units.quantity(value.value, "" if one.unit == "items/s" else one.unit, 4)


def _around(one: JudgedFigure, *, candidate: bool) -> str:
    value = one.candidate_value if candidate else one.baseline_value
    return units.spread(value.value, value.low, value.high) if value is not None else ""


def _ratio(found: Comparison) -> str:
    """Return a ratio with its interval; of one that is too wide the bound that holds: no verdict beside a dash."""
    return "" if found.ratio is None else units.ratio(found.ratio.value, found.ratio.low, found.ratio.high)


def _forests(compared: ComparedRuns, *, is_first: bool) -> Iterator[Chart]:
    """Yield the ratios of all candidates in one plot: of the figure that says which is faster, or of all others."""
    letters = {one.label: one.letter for one in compared.participants}
    rows = [
        _of_ratio(one, f"{letters[one.comparison.candidate.label]} vs {compared.participants[0].letter}")
        for one in compared.judged
        if (one.comparison.metric == primary(one.task)) is is_first and one.comparison.ratio is not None
    ]
    yield from ratios_chart(rows, compared.margin, compared.levels[0 if is_first else 1])


def _of_ratio(one: JudgedFigure, pair: str) -> Ratio:
    found, ratio = one.comparison, one.comparison.ratio
    value, low, high = (ratio.value, ratio.low, ratio.high) if ratio is not None else (None, None, None)
    return Ratio(f"{pair}, {one.case}", _figure(one), value, low, high, str(found.verdict))


# ── what to mind ────────────────────────────────────────────────────────────────────────────────────────────


def _notes(compared: ComparedRuns) -> Iterator[str]:
    """Yield which Cases are compared with none, and under which labels comparisons have to be read, each once."""
    for letter, cases in uncompared_cases(compared.participants, compared.matched).items():
        more = f" and {len(cases) - _MOST_NAMED} more" if len(cases) > _MOST_NAMED else ""
        yield f"unmatched cases in {letter}: {', '.join(cases[:_MOST_NAMED])}{more}"
    seen: dict[str, dict[str, None]] = {}
    for one in compared.judged:
        for label in one.labels:
            seen.setdefault(f"{_pair(one.comparison, compared)}: {text(label)}", {})[one.case] = None
    for line, where in seen.items():
        yield line + (f" ({len(where)} cases)" if len(where) > 1 else "")


def _differing(compared: ComparedRuns) -> Iterator[tuple[str, bool]]:
    """Yield what differs beside the figures, each once, and whether that makes the comparison less fair, such first."""
    several = len(compared.participants) > 2
    found: list[tuple[str, Differing]] = []
    for one in compared.judged:
        for each in one.comparison.differing:
            entry = (f"{_pair(one.comparison, compared)}: " if several else "", each)
            if entry not in found:
                found.append(entry)
    for pair, each in sorted(found, key=lambda key: key[1].matters is None):
        changed = f"{_side_value(each.baseline, each.unit)} → {_side_value(each.candidate, each.unit)}"
        line = f"{pair}{each.what}: {changed}" + (f" ({text(each.matters)})" if each.matters is not None else "")
        yield line, each.matters is not None


def _side_value(value: Scalar | Finding, unit: str | None) -> str:
    if isinstance(value, Finding):
        return value.message
    if unit is not None and isinstance(value, int | float):
        return f"{value:.2f} cores" if unit == "cores" else units.quantity(value, unit)
    return units.MISSING if value is None or value == "" else scalar_word(value)


def _how(compared: ComparedRuns) -> Iterator[str]:
    ratios = [one for one in compared.judged if one.comparison.ratio is not None]
    if not ratios:
        return
    first = sum(one.comparison.metric == primary(one.task) for one in ratios)
    levels, rate = [f"{100 * level:.4g} %" for level in compared.levels], f"{100 * ALPHA:g} %"
    names = ", ".join(sorted({primary(one.task) for one in ratios}))
    yield (
        f"ratio: candidate ÷ {compared.participants[0].letter}; same: its interval lies within the equivalence margin "
        f"of {100 * compared.margin:g} %. Confidence intervals of {names}: {levels[0]}, for a family-wise error rate "
        f"of {rate} (Holm, {first} comparisons); of the other {len(ratios) - first} figures: {levels[1]}, for a false "
        f"discovery rate of {rate} (Benjamini-Hochberg)."
    )
    methods = dict.fromkeys(one.comparison.ratio.method for one in ratios if one.comparison.ratio is not None)
    yield f"method: {'; '.join(methods)}."
    if any(one.comparison.trials_to_settle for one in ratios):
        yield "more trials: so many more of each side are needed (80 % power at the observed ratio)."
    if any(one.comparison.ratio is not None and one.comparison.ratio.is_wide for one in ratios):
        more = "" if any(one.trains for one in compared.participants) else "; take more trials (--trials 10)"
        yield f"{units.MISSING}: the interval is wider than ±50 %, which is no answer{more}."


# ── the answer for a task ───────────────────────────────────────────────────────────────────────────────────


_NAMED = 6  # candidates whose ratio is in the answer: the table has all


def purpose(answer: TaskAnswer) -> str:
    """Return what a task is for, in a word."""
    return PURPOSES.get(answer.task, answer.task)


def answer_words(answer: TaskAnswer, compared: ComparedRuns) -> str:
    """Return the sentence, without its end."""
    letter = compared.participants[0].letter
    names = {
        one.letter: one.letter if one.label == one.letter else f"{one.letter} ({one.label})"
        for one in compared.participants
    }
    if answer.ranked:
        return _of_several(answer, letter, names)
    times, cases = _times(answer.ratios), len(answer.ratios)
    b = names[answer.candidate or ""]
    ratio = f"{b} is {times} times as fast as {names[letter]}{_over(answer.ratios)}"
    if times == units.MISSING:
        ratio = f"how {b} and {names[letter]} differ is not known to ±50 %"
    rest = f"; {answer.open} of {cases} cases unclear" if 0 < answer.open < cases else ""
    match answer.result:
        case TaskResult.DEPENDS:
            wins = f"{answer.candidate} in {answer.better}, {letter} in {answer.worse} of {cases} cases"
            return f"it depends: {wins}; {ratio}{rest}"
        case TaskResult.FASTER:
            how, count = ("faster", answer.better) if answer.better else ("slower", answer.worse)
            in_cases = f"; it is {how} in {count} of {cases} cases" if cases > 1 else ""
            return f"{ratio}{in_cases}{rest}"
        case TaskResult.EQUIVALENT:
            return f"equivalent within {100 * answer.margin:g} %: {ratio}"
        case _:
            unclear = "" if times == units.MISSING else "unclear: "
            return f"{unclear}{ratio}{rest}{_settling(answer)}"


def _of_several(answer: TaskAnswer, letter: str, names: Mapping[str, str]) -> str:
    candidates = [one for one in answer.ranked if one.ratios]
    first, base = names[answer.ranked[0].letter], names[letter]
    over = _over(candidates[0].ratios)
    named = [f"{names[one.letter]} {_times(one.ratios)}" for one in candidates]
    more = f"; {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    if answer.result == TaskResult.FASTER and first != base:
        behind = [one for one in answer.ranked[1:] if one.lead]
        leads = [f"{_times(one.lead)} times as fast as {names[one.letter]}" for one in behind]
        over = _over(behind[0].lead) if behind else ""
        more = f"; {len(leads) - _NAMED} more" if len(leads) > _NAMED else ""
        return f"{first} is the fastest: {', '.join(leads[:_NAMED])}{over}{more}"
    order = f"{', '.join(named[:_NAMED])} times as fast as {base}{over}{more}"
    if answer.result == TaskResult.FASTER:
        return f"{first} is the fastest; {order}"
    even, ahead = (", ".join(names[one] for one in letters) for letters in (answer.even, answer.ahead))
    but = [f"is not significantly different from {even}"] if even else []
    but += [f"is slower than {ahead} in some cases"] if ahead else []
    return f"{first} leads, and {' and '.join(but)}; {order}"


def _times(ratios: Sequence[Estimate]) -> str:
    """Return the ratio of one case; of several the geometric mean with the outermost ends of their intervals."""
    if len(ratios) == 1:
        return units.ratio(ratios[0].value, ratios[0].low, ratios[0].high)
    ends = [end for one in ratios for end in (one.value, one.low, one.high) if end is not None]
    mean, low, high = (units.significant(value, 3) for value in (mean_ratio(ratios), min(ends), max(ends)))
    return f"{mean} [{low}, {high}]"


def _over(ratios: Sequence[Estimate]) -> str:
    """Return of how many cases a mean is, and what its brackets are."""
    return f"; means of {len(ratios)} cases with the outermost ends of their intervals" * (len(ratios) > 1)


def _settling(answer: TaskAnswer) -> str:
    if answer.trained:
        return "; a training is one trial: `torchstone run --trials 5` repeats its step, `torchstone ab` compares code"
    if answer.trials_to_settle is not None:
        return f"; about {answer.trials_to_settle} more trials of each needed (80 % power at the observed ratio)"
    return "; `torchstone ab` interleaves and may tell, more trials of these runs do not"


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────


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
    drawn, lost = charts.fastest_lines(charts.by_batch(participants, prices))
    for quantity in charts.QUANTITIES:
        if (picture := _of_quantity(quantity, drawn, participants, lost)) is not None:
            says = f"{quantity.title[:1].upper()}{quantity.title[1:]}, a line for each of the compared"
            yield Chart(f"comparison_{quantity.name}", says, picture)
    if (losses := charts.losses(participants)) is not None:
        yield Chart("comparison_training_loss", "The losses of the first steps, a line a device and setting", losses)
    if (epochs := charts.epochs(participants)) is not None:
        yield Chart("comparison_epochs", "Loss and accuracy over the epochs of each training", epochs)
        gauges = [charts.training_curves(name, participants) for name in _GAUGES]
        order = charts.line_names(participants)
        panels = (*epochs.panels, *(panel for one in gauges for panel in charts.over_time(one, order)))
        says = "Loss and accuracy over epochs, utilization, memory and power over time, a line a training"
        yield Chart("comparative_metrics", says, Picture("Trainings compared", panels, _ONE_EACH, columns=2))


def of_each(participants: Sequence[ComparedInput]) -> Iterator[Chart]:
    """Yield every quantity of each participant's Cases over batch size."""
    drawn = charts.by_batch(participants)
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
    quantity: charts.Quantity, drawn: Sequence[charts.ComparedPoint], of: Sequence[ComparedInput], lost: int
) -> Picture | None:
    """Return the picture of one quantity: measured cases over batch size, trainings to an end over time.

    `lost`: so many lines are not among those drawn.
    """
    curves = charts.training_curves(quantity.name, of)
    over_time = {curve.run_id for curve in curves}
    rest = [point for point in drawn if point.row["run_id"] not in over_time]
    panels = (*charts.over_batch_size(quantity, rest), *charts.over_time(curves, charts.line_names(of)))
    left_out = f"the first line and the fastest; {lost} more are in the tables" if lost else ""
    words = "; ".join(filter(None, (charts.bar_words(panels), left_out)))
    return Picture(quantity.name.capitalize(), panels, words) if panels else None


# ── a reproduction ──────────────────────────────────────────────────────────────────────────────────────────


_NAMED_CASES = 3  # cases in the headline
_OPEN = (Judgement.UNCLEAR, Judgement.NOT_COMPARABLE)


def reproduction_document(found: Reproduced, files: tuple[str, ...] = ()) -> Document:
    """Return what is told of a run that was measured again. `files`: what was written."""
    run_id = found.compared.participants[0].runs[0].head.run_id
    whole = comparison_document(found.compared, files)
    return Document(
        f"reproduction of {run_id}", (Text(_reproduction_headline(found, run_id), Role.HEADLINE), *_rest(whole.parts))
    )


def _rest(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Yield the parts of the comparison below the answer; its own headline is a text among others here."""
    for part in parts:
        if isinstance(part, Text) and part.role == Role.HEADLINE:
            yield msgspec.structs.replace(part, role=Role.BODY)
        elif isinstance(part, Section):
            yield msgspec.structs.replace(part, parts=tuple(_rest(part.parts)))
        else:
            yield part


def _reproduction_headline(found: Reproduced, run_id: str) -> str:
    margin = units.percent(found.compared.margin) if found.compared.margin >= 0.01 else f"{found.compared.margin:.2%}"
    cases = f"{len(found.judged)} case{'s' * (len(found.judged) != 1)}"
    if found.answer == Equivalence.EQUIVALENT:
        told = f"{cases} measured here as recorded in {run_id}"
        return f"Equivalent: {told}, within the equivalence margin of ±{margin}."
    apart = [one for one in found.judged if one.comparison.verdict in (Judgement.BETTER, Judgement.WORSE)]
    if found.answer == Equivalence.DIFFERENT:
        told = "; ".join(map(_reproduced_ratio, apart[:_NAMED_CASES])) + (
            " and more" if len(apart) > _NAMED_CASES else ""
        )
        return f"Different from {run_id} in {len(apart)} of {cases}: {told}."
    open_ = [one for one in found.judged if one.comparison.verdict in _OPEN]
    return (
        f"Inconclusive: {len(open_)} of {cases} neither equivalent to {run_id} within ±{margin} nor significantly "
        f"different{_wider(found)}{_needed(open_)}."
    )


def _wider(found: Reproduced) -> str:
    """Return the least margin, in whole percent, within which all of them are equivalent, where that says something."""
    ratios = [one.comparison.ratio for one in found.judged]
    ends = [(one.low, one.high) for one in ratios if one is not None and one.low is not None and one.high is not None]
    if found.unmeasured or len(ends) < len(ratios) or not ends:
        return ""
    share = math.ceil(100.0 * (max(max(high, 1.0 / low) for low, high in ends) - 1.0)) / 100.0
    return f"; equivalent within ±{units.percent(share)}" if share <= units.WIDEST else ""


def _reproduced_ratio(one: JudgedFigure) -> str:
    ratio = one.comparison.ratio
    told = units.ratio(ratio.value, ratio.low, ratio.high) if ratio is not None else units.MISSING
    return f"{one.case}: {one.comparison.metric.replace('_', ' ')} {told} times the recorded one"


def _needed(open_: list[JudgedFigure]) -> str:
    """Return how many more trials would decide, where that is known of all."""
    counts = [one.comparison.trials_to_settle for one in open_]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts):
        return ""
    return f"; about {max(known)} more trials of each needed (80 % power at the observed ratio)"

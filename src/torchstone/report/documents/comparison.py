"""A comparison of stored runs as a Document: the answer, what stands against it, the ratios; all else is folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.compare.compare import ALPHA, ComparedRuns, ItemTimeRatio, JudgedFigure, item_time_ratios
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import left_out
from torchstone.analysis.compare.runtimes import RuntimeRatio, runtime_ratios, specifications
from torchstone.analysis.compare.task_answers import TaskAnswer
from torchstone.core import units
from torchstone.core.schema.comparison import Comparison, Differing, Judgement
from torchstone.report.charts.ratios import Ratio, ratios_chart
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import (
    Chart,
    Column,
    Document,
    Facts,
    Part,
    Role,
    Section,
    Table,
    Text,
    paragraphs,
)
from torchstone.report.documents.cost import price_text
from torchstone.report.documents.task_words import answer_words, purpose

_TITLES = {
    "throughput": "THROUGHPUT ANALYSIS", "latency": "LATENCY", "start": "START-UP", "memory": "MEMORY",
    "energy": "ENERGY", "cost": "COST",
}  # fmt: skip
_WORDS = {Judgement.NOT_COMPARABLE: "not comparable"}
_MOST, _MOST_ROWS = 10, 24  # lines of a list, rows of a table
_MOST_REFUSED, _MOST_NOTED = 3, 3  # lines beside the answer
_MOST_NAMED = 3  # Cases that are compared with nothing
_AGAIN = ("step_time_mean", "token_throughput", "latency_per_item_s")  # what other figures of their block say already


def comparison_document(
    compared: ComparedRuns,
    answers: Sequence[TaskAnswer],
    written: Sequence[str] = (),
    pictures: Sequence[Part] = (),
) -> Document:
    """Return the answer, what makes it less fair, and the ratio of each case; everything else is folded.

    `written`: the files that were made of it; `pictures`: what stands below the ratios.
    """
    baseline, *others = (one.label for one in compared.participants)
    sources = [price_text(letter, one.price, one.currency) for letter, one in compared.asked.offers.items()]
    parts = (*_parts(compared, answers, written, pictures), *paragraphs(sources, Role.NOTE))
    return Document(f"{', '.join(others)} against {baseline}", parts)


def _parts(
    compared: ComparedRuns, answers: Sequence[TaskAnswer], written: Sequence[str], pictures: Sequence[Part]
) -> Iterator[Part]:
    yield from _headline(compared, answers)
    notes, differing = tuple(_notes(compared)), tuple(_differing(compared))
    unfair = tuple(line for line, matters in differing if matters)
    yield from paragraphs(tuple(map(_of_runtimes, runtime_ratios(compared)))[:_MOST_NOTED])
    yield from paragraphs((*notes, *unfair)[:_MOST_NOTED], Role.NOTE)
    for task in dict.fromkeys(one.task for one in compared.judged):
        yield from _ratios(compared, task)
    yield from _forests(compared, is_first=True)
    yield from pictures
    if written:
        yield Facts(tuple(("written", file) for file in written))
    blocks: tuple[Part, ...] = (
        _sides(compared), *_blocks(compared), *_lines("NOTES", notes),
        *_lines("WHAT ELSE DIFFERS", [line for line, _ in differing]), *paragraphs(tuple(_how(compared))),
        Section("ratios of the other figures", (*_forests(compared, is_first=False),)),
    )  # fmt: skip
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


def _headline(compared: ComparedRuns, answers: Sequence[TaskAnswer]) -> Iterator[Text]:
    for answer in answers:
        yield Text(f"For {purpose(answer)}: {answer_words(answer, compared)}.", Role.HEADLINE)
    refused = [one for one in compared.judged if one.comparison.verdict == Judgement.NOT_COMPARABLE]
    if not answers and not refused:
        yield Text("Which is faster is not known: no rate is known of both.", Role.HEADLINE)
    for place, one in enumerate(refused[:_MOST_REFUSED]):
        told = f"Not comparable: {one.case}, {_pair(one.comparison, compared)}: {one.comparison.why_text}"
        yield Text(told, Role.BODY if answers or place else Role.HEADLINE)
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
    columns.append(Column("ratio", tuple(_ratio(one.comparison) for one in rows)))
    columns.append(Column("verdict", tuple(_verdict(one.comparison) for one in rows), left=True))
    columns.append(Column("more trials", tuple(_settle(one.comparison) for one in rows), 4))
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


def _verdict(found: Comparison) -> str:
    return _WORDS.get(found.verdict, str(found.verdict))


def _settle(found: Comparison) -> str:
    return str(found.trials_to_settle) if found.trials_to_settle is not None else ""


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
    for letter, cases in left_out(compared.participants, compared.matched).items():
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
        changed = f"{each.baseline or units.MISSING} → {each.candidate or units.MISSING}"
        line = f"{pair}{each.what}: {changed}" + (f" ({text(each.matters)})" if each.matters is not None else "")
        yield line, each.matters is not None


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

"""A comparison on the terminal: the answer, who is compared, figures block by block, what differs, how it is known."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from torchstone.analysis.compare.answer import Answer
from torchstone.analysis.compare.compare import ComparedRuns, Judged
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.matching import left_out
from torchstone.analysis.compare.runtimes import RuntimeRatio, runtime_ratios
from torchstone.analysis.compare.specifications import specifications
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import units
from torchstone.core.schema.comparison import Comparison, Differing, Judgement

_TITLES = {
    "throughput": "THROUGHPUT ANALYSIS", "latency": "LATENCY", "start": "START-UP", "memory": "MEMORY",
    "energy": "ENERGY", "cost": "COST",
}  # fmt: skip
_WORDS = {Judgement.NOT_COMPARABLE: "not comparable"}
_MOST, _MOST_ROWS = 10, 24  # lines of a list, and rows of a table, without --full
_MOST_NAMED = 3  # Cases that are compared with nothing
_AGAIN = ("step_time", "token_throughput", "latency_per_item_s")  # what other figures of their block say already


def print_comparison(
    compared: ComparedRuns, answers: Sequence[Answer], width: int | None = None, *, every: bool = False
) -> None:
    """Print all of it; what is long is cut unless `every`."""
    width = width or terminal_width()
    for line in _headline(compared, answers):
        print(textwrap.fill(plain(line), width, subsequent_indent="  "))
    _print_sides(compared, width)
    _print_speedup(compared, width, every=every)
    for block, title in _TITLES.items():
        rows = [one for one in compared.judged if one.block == block and one.comparison.ratio is not None]
        kept = [one for one in rows if every or one.comparison.metric not in _AGAIN] or rows
        if kept:
            print(f"\n[{title}]")
            show(list(_columns(kept if every else kept[:_MOST_ROWS], compared)), width)
            if not every and len(kept) > _MOST_ROWS:
                print(f"{len(kept) - _MOST_ROWS} more rows: --full")
    for title, lines in (("NOTES", _notes(compared)), ("WHAT ELSE DIFFERS", _differing(compared))):
        _print_lines(title, list(lines), width, every=every)
    print()
    for line in _how(compared):
        print(textwrap.fill(plain(line), width, subsequent_indent="  "))


def _headline(compared: ComparedRuns, answers: Sequence[Answer]) -> Iterator[str]:
    for answer in answers:
        yield f"Faster for {answer.purpose}: {answer.words}."
    refused = [one for one in compared.judged if one.comparison.verdict == Judgement.NOT_COMPARABLE]
    for one in refused[:_MOST]:
        yield f"Not comparable: {one.case}, {_pair(one.comparison, compared)}: {one.comparison.why}"
    if len(refused) > _MOST:
        yield f"Not comparable: {len(refused) - _MOST} more"


def _letters(compared: ComparedRuns) -> dict[str, str]:
    return {one.label: one.letter for one in compared.participants}


def _pair(found: Comparison, compared: ComparedRuns) -> str:
    letters = _letters(compared)
    return f"{letters[found.candidate.label]} vs {letters[found.baseline.label]}"


def _print_sides(compared: ComparedRuns, width: int) -> None:
    facts = specifications(compared)
    heads = [
        f"[BENCHMARK {number}]\n{one.letter}{' (baseline)' if number == 1 else ''}"
        for number, one in enumerate(compared.participants, 1)
    ]
    names = Column("", [name for name, _ in facts], left=True)
    each = [Column(head, [plain(values[place]) for _, values in facts], left=True) for place, head in enumerate(heads)]
    print()
    if sum(min(column.width, 40) + 2 for column in (names, *each)) <= max(width, 80):
        show([names, *each], width)
        return
    for head, column in zip(heads, each, strict=True):
        print(head.replace("\n", " "))
        for name, value in zip(names.cells, column.cells, strict=True):
            print(textwrap.fill(f"  {name}: {value}", width, subsequent_indent="    "))


def _print_speedup(compared: ComparedRuns, width: int, *, every: bool) -> None:
    """Print the ratio of times: of whole trainings, and of an item, which is that of the first figure turned over."""
    lines = [_of_runtimes(one) for one in runtime_ratios(compared)]
    for one in compared.judged:
        found = one.comparison
        if found.metric != primary(one.task) or found.ratio is None:
            continue
        b, _, a = _pair(found, compared).split()
        low, high = found.ratio.low or found.ratio.value, found.ratio.high or found.ratio.value
        times = units.ratio(1.0 / found.ratio.value, 1.0 / high, 1.0 / low)
        faster = {Judgement.BETTER: b, Judgement.WORSE: a, Judgement.SAME: "neither"}.get(found.verdict, "unclear")
        lines.append(f"{b} vs {a}, {one.case}, an item: time ratio {times}, faster: {faster}")
    _print_lines("SPEEDUP ANALYSIS", lines, width, every=every)


def _of_runtimes(one: RuntimeRatio) -> str:
    """Return the ratio of two total runtimes. Each was taken once, so there is no interval to it."""
    what = f"{one.candidate} vs {one.baseline}, {one.case}, total runtime"
    times = [units.quantity(seconds, "s", 4) for seconds in (one.candidate_s, one.baseline_s)]
    told = f"{what}: time ratio {units.significant(one.ratio, 3)} ({times[0]} and {times[1]})"
    if not one.same_work:
        return f"{told}, not of the same work: {one.epochs[1]} epochs and {one.epochs[0]}"
    return f"{told}, faster: {one.faster or 'neither'}, one run each: no interval"


def _columns(rows: Sequence[Judged], compared: ComparedRuns) -> Iterator[Column]:
    letters, several = _letters(compared), len(compared.participants) > 2
    cases = list(dict.fromkeys(one.case for one in compared.judged))
    if len(cases) > 1:
        above = [None, *(one.case for one in rows[:-1])]
        named = ["" if one.case == before else one.case for one, before in zip(rows, above, strict=True)]
        yield Column("case", [plain(name) for name in named], left=True)
    yield Column("figure", [_figure(one) for one in rows], left=True)
    if several:
        yield Column("", [letters[one.comparison.candidate.label] for one in rows])
    base = compared.participants[0].letter
    yield Column(base, [_value(one, candidate=False) for one in rows], 1)
    yield Column("±", [_around(one, candidate=False) for one in rows], 3)
    yield Column("candidate" if several else compared.participants[1].letter, [_value(one) for one in rows], 1)
    yield Column("±", [_around(one) for one in rows], 3)
    yield Column("ratio", [_ratio(one.comparison) for one in rows])
    yield Column("interval", [_interval(one.comparison) for one in rows], 2)
    yield Column("verdict", [_verdict(one.comparison) for one in rows], left=True)
    yield Column("more\ntrials", [_settle(one.comparison) for one in rows], 4)


def _figure(one: Judged) -> str:
    name = one.comparison.metric.removesuffix("_s").removesuffix("_bytes").removesuffix("_j").removesuffix("_w")
    return name.replace("_", " ")


def _value(one: Judged, *, candidate: bool = True) -> str:
    value = one.candidate_value if candidate else one.baseline_value
    if value is None:
        return units.MISSING
    return units.quantity(value.value, "" if one.unit == "items/s" else one.unit, 4)


def _around(one: Judged, *, candidate: bool = True) -> str:
    value = one.candidate_value if candidate else one.baseline_value
    return units.spread(value.value, value.low, value.high) if value is not None else ""


def _interval(found: Comparison) -> str:
    """Return the interval of a ratio; of one that is too wide to be shown, the bound that holds all the same."""
    if found.ratio is None or found.ratio.low is None or found.ratio.high is None:
        return ""
    told = units.ratio(found.ratio.value, found.ratio.low, found.ratio.high)
    return told if found.ratio.is_wide else told[told.index("[") :]


def _ratio(found: Comparison) -> str:
    if found.ratio is None:
        return ""
    return units.MISSING if found.ratio.is_wide else f"{found.ratio.value:.3g}"


def _verdict(found: Comparison) -> str:
    return _WORDS.get(found.verdict, str(found.verdict))


def _settle(found: Comparison) -> str:
    return str(found.trials_to_settle) if found.trials_to_settle is not None else ""


def _notes(compared: ComparedRuns) -> Iterator[str]:
    """Yield which Cases are compared with none, and under which labels comparisons have to be read, each once."""
    for letter, cases in left_out(compared.participants, compared.matched).items():
        more = f" and {len(cases) - _MOST_NAMED} more" if len(cases) > _MOST_NAMED else ""
        yield f"only in {letter}, and not compared: {', '.join(cases[:_MOST_NAMED])}{more}"
    seen: dict[str, dict[str, None]] = {}
    for one in compared.judged:
        if one.comparison.why is not None and one.comparison.ratio is not None:
            for label in one.comparison.why.split("; "):
                seen.setdefault(f"{_pair(one.comparison, compared)}: {label}", {})[one.case] = None
    for text, where in seen.items():
        yield text + (f" ({len(where)} cases)" if len(where) > 1 else "")


def _differing(compared: ComparedRuns) -> Iterator[str]:
    """Yield what differs beside the figures, each once; first what makes the comparison less fair."""
    several = len(compared.participants) > 2
    found: dict[tuple[str, Differing], None] = {}
    for one in compared.judged:
        for each in one.comparison.differing:
            found[f"{_pair(one.comparison, compared)}: " if several else "", each] = None
    for pair, each in sorted(found, key=lambda key: key[1].matters is None):
        changed = f"{each.baseline or units.MISSING} → {each.candidate or units.MISSING}"
        yield f"{pair}{each.what}: {changed}" + (f" ({each.matters})" if each.matters else "")


def _print_lines(title: str, lines: Sequence[str], width: int, *, every: bool) -> None:
    if not lines:
        return
    print(f"\n[{title}]")
    kept = lines if every else lines[:_MOST]
    for line in kept:
        print(textwrap.fill(plain(f"  {line}"), width, subsequent_indent="    "))
    if len(lines) > len(kept):
        print(f"  {len(lines) - len(kept)} more: --full")


def _how(compared: ComparedRuns) -> Iterator[str]:
    ratios = [one for one in compared.judged if one.comparison.ratio is not None]
    if not ratios:
        return
    first = sum(one.comparison.metric == primary(one.task) for one in ratios)
    levels = [f"{100 * level:.4g} %" for level in compared.levels]
    names = ", ".join(sorted({primary(one.task) for one in ratios}))
    yield (
        f"ratio: candidate ÷ {compared.participants[0].letter}; same: its interval lies within "
        f"{100 * compared.margin:g} %. Intervals of {names}: {levels[0]}, so that at most 1 table in 20 has a false "
        f"better or worse (Holm, {first}); of the other {len(ratios) - first} figures: {levels[1]}, so that 1 in 20 of "
        "theirs is false (Benjamini-Hochberg)."
    )
    methods = dict.fromkeys(one.comparison.ratio.method for one in ratios if one.comparison.ratio is not None)
    yield f"method: {'; '.join(methods)}."
    if any(one.comparison.trials_to_settle for one in ratios):
        yield "more trials: so many of each side would settle it (80 % power at the ratio seen)."
    if any(one.comparison.ratio is not None and one.comparison.ratio.is_wide for one in ratios):
        yield f"{units.MISSING}: the interval is wider than ±50 %, which is no answer; take more trials (--trials 10)."

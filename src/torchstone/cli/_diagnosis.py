"""A diagnosis on the terminal: the cause first, its evidence, what was tried, and what to type."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import units
from torchstone.core.schema.case import Task
from torchstone.report.diagnosis_wording import gain_words, in_own_code, limit_words, memory_words, open_remedies
from torchstone.workflows.diagnose.diagnosis import Cause, Diagnosis, Place, Tried
from torchstone.workflows.diagnose.ranking import refuted

_WORD = 10  # characters of the first column
_WORTH = 0.05  # of the step: causes below are not worth a line
_MOST_READINGS = 6


def print_diagnosis(diagnosis: Diagnosis, command: str | None, width: int | None = None) -> None:
    """Print all of it. `command`: what to type, where something helped."""
    width = width or terminal_width()
    _print([("", _answer(diagnosis))], width)
    print()
    _print(_head(diagnosis), width)
    print()
    if not diagnosis.causes:
        _print([("cause", "nothing found: the step was not measured in its phases, or has none")], width)
        _print(_readings(diagnosis), width)
        return
    _print(_first(diagnosis.causes[0], diagnosis.tried), width)
    _print(_others(diagnosis.causes[1:], diagnosis.tried), width)
    _print_tried(diagnosis, width)
    _print(_what_to_do(diagnosis), width)
    if command is not None:
        print(f"{'type':<{_WORD}}{plain(command)}")  # whole, so that it can be copied
    _print(_readings(diagnosis), width)


def _answer(diagnosis: Diagnosis) -> str:
    """Return the cause with what it costs, and what was measured to help, in two sentences."""
    if not diagnosis.causes:
        return "No cause was found: the step was not measured in its phases, or has none."
    first, applied = diagnosis.causes[0], diagnosis.applied
    text = f"{first.title[:1].upper()}{first.title[1:]}: {limit_words(first)}."
    if applied is not None and applied.gain is not None:
        return f"{text} With {applied.what_if.name} it is {gain_words(applied)} times as fast, measured live."
    return text


def _head(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    case = diagnosis.case
    what = f"{case.workload.task} {case.workload.model}, batch_size {case.configuration.get('batch_size')}"
    rate = ""
    if diagnosis.throughput is not None:
        step = units.quantity(diagnosis.step_s, "s")
        rate = f": {units.significant(diagnosis.throughput, 4)} {case.workload.item}s/s, {step} a step"
    yield "", f"{what}, on {case.placement}{rate}"
    if diagnosis.fed is not None:
        yield "", diagnosis.fed
    if diagnosis.unmeasured is not None:
        yield "", f"from its record alone: {diagnosis.unmeasured}"


def _first(cause: Cause, tried: Sequence[Tried]) -> Iterator[tuple[str, str]]:
    yield "cause", cause.title
    yield "", f"{cause.kind} bottleneck, {limit_words(cause)}"
    yield from _column("evidence", cause.evidence)
    yield from _column("where", [_place(place) for place in cause.where])
    if cause.usual:
        yield "usually", ", ".join(cause.usual)
    if remedies := open_remedies(cause, tried):
        yield "try", f"{'; '.join(remedies)} (not measured)"
    yield from _column("in code", in_own_code(cause, tried))


def _others(causes: Sequence[Cause], tried: Sequence[Tried]) -> Iterator[tuple[str, str]]:
    told = [cause for cause in causes if cause.share >= _WORTH]
    also = [f"{c.title} ({100 * c.share:.0f} % of the step)" for c in told if not refuted(c, tried)]
    yield from _column("also", also)
    yield from _column("not", [f"{c.title}: what would help then does not" for c in told if refuted(c, tried)])


def _place(place: Place) -> str:
    often = f", {place.runs_per_step:,.0f} times a step" if place.runs_per_step is not None else ""
    return f"{place.file}:{place.line}, {100 * place.share:.0f} % of the step{often}: {place.code}"


def _print_tried(diagnosis: Diagnosis, width: int) -> None:
    applied = diagnosis.applied
    shown = [one for one in diagnosis.tried if one.gain is not None]
    if applied is not None and applied not in shown and applied.gain is not None:
        shown.append(applied)
    if shown:
        print()
        names = [f"{one.what_if.name}{' (ceiling)' * one.what_if.ceiling}" for one in shown]
        show(
            [
                Column("what if", [plain(name) for name in names], left=True),
                Column("times as fast", [gain_words(one) for one in shown], left=True),
                Column("peak memory", [memory_words(one) for one in shown], rank=1),
                Column("what is computed", [plain(one.loss or "–") for one in shown], rank=2, left=True),
                Column("for", [plain(one.cause) for one in shown], rank=3, left=True),
            ],
            width,
        )
    rest: dict[str, list[str]] = {}
    for one in diagnosis.tried:
        if one.gain is None and one.message:
            rest.setdefault(one.message, []).append(one.what_if.name)
    _print(_column("else", [f"{'; '.join(names)}: {why}" for why, names in rest.items()]), width)


def _what_to_do(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    applied, first = diagnosis.applied, diagnosis.causes[0]
    if applied is not None and applied.gain is not None:
        yield "gain", f"{gain_words(applied)} times as fast with {applied.what_if.name}, measured live"
        if applied.loss is not None and applied.loss != "the same":
            still = "it still learns" if diagnosis.case.workload.task == Task.TRAIN else "its answers are still good"
            yield "", f"it changes what is computed ({applied.loss}): see to it that {still}"
    elif first.own_code:
        yield "gain", f"only a change of the code brings it; {limit_words(first)}"
    elif any(one.gain is not None or one.first_look is not None for one in diagnosis.tried):
        yield "gain", "no setting that was tried is faster"


def _readings(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    yield from _column("limits", diagnosis.limits[:1])
    yield from _column("note", [one.seen for one in diagnosis.pattern[:_MOST_READINGS]])


def _column(word: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        yield (word if number == 0 else ""), line


def _print(lines: Iterator[tuple[str, str]] | Sequence[tuple[str, str]], width: int) -> None:
    for word, text in lines:
        start = f"{word:<{_WORD}}" if word or text else ""
        print(textwrap.fill(plain(text), width, initial_indent=start, subsequent_indent=" " * _WORD,
                            break_long_words=False, break_on_hyphens=False))  # fmt: skip

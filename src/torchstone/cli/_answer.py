"""The answer of a tune: the blocks, the gain over the present settings, the epoch, why, and the settings to write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from torchstone import units
from torchstone.advice.choices import Chosen
from torchstone.cli._blocks import block_lines
from torchstone.cli._case_table import print_cases
from torchstone.cli._findings import print_findings
from torchstone.cli._report import print_head
from torchstone.cli._table import plain, terminal_width
from torchstone.summary import RunSummary
from torchstone.terms.answer import Answer
from torchstone.terms.axis import Scalar
from torchstone.terms.estimate import Estimate
from torchstone.terms.trial import Purpose

if TYPE_CHECKING:
    from torchstone.runner.results import Results

_UNCLEAR = "not certain, more --trials would tell"


def in_duel(run: RunSummary) -> RunSummary:
    """Return the run with the Cases of its duel alone, where there was one: the probes of a search are no results."""
    fought = tuple(case for case in run.cases if any(t.purpose == Purpose.REPLICATE for t in case.trials))
    return msgspec.structs.replace(run, cases=fought) if fought else run


def print_tuned(results: Results) -> None:
    """Print a tune that has ended: its answer, the Cases of its duel, what to doubt, and where the files are."""
    run, finalists = results.summary, in_duel(results.summary)
    print_head(run)
    print_answer(run)
    print_cases(finalists)
    print_findings(finalists)
    print(f"\nrecord    {run.record}\ndocument  {results.document}\ntable     {results.table}")
    print(f"more      torchstone show {run.run_id} --full")


def print_answer(run: RunSummary, width: int | None = None) -> None:
    """Print the answer of a run that was a tune: what to choose, what it gains, and why."""
    answer = run.answer
    if answer is None:
        return
    width = width or terminal_width()
    chosen = Chosen(answer.highest_throughput, answer.best_efficiency, answer.recommended, answer.pareto)
    workload = next(case.workload for case in run.cases if case.case_id == answer.recommended.case_id)
    print()
    for line in (*block_lines(chosen, str(workload.task), workload.item), "", *_lines(answer)):
        print(textwrap.fill(plain(line), width, subsequent_indent=" " * (10 if line[:1].isalpha() else 4)))


def _lines(answer: Answer) -> Iterator[str]:
    best = answer.recommended
    if answer.gain is not None:
        yield f"gain      {_gain(answer.gain)}"
    elif answer.present is not None and answer.present.case_id == best.case_id:
        yield "gain      none: what you have now is the best that was found"
    elif answer.present is None:
        yield "gain      not known: say what you have now with --present batch_size=…"
    if answer.epoch_time_s is not None:
        yield f"epoch     {_with_interval(answer.epoch_time_s)} expected"
    for number, reason in enumerate(answer.why):
        yield f"{'why' if number == 0 else '':<9} {reason}"
    yield f"cost      {_cost(answer)}"
    yield "settings"
    yield from (f"  {name}: {_scalar(value)}" for name, value in answer.settings.items())


def _gain(gain: Estimate) -> str:
    if gain.low is not None and gain.high is not None:
        interval = f" [{gain.low:.3g}, {gain.high:.3g}]"
        if gain.low <= 1.0 <= gain.high:
            return f"{gain.value:.3g} times the present settings{interval}: {_UNCLEAR}"
        return f"{gain.value:.3g} times the present settings{interval}, {gain.trials} rounds"
    return f"{gain.value:.3g} times the present settings (one round: no interval)"


def _cost(answer: Answer) -> str:
    spent = f"{answer.probes} probes, {units.quantity(answer.searched_s, 's')}"
    if answer.everything_s is None:
        return f"{spent}; {answer.points} settings"
    share = units.quantity(answer.searched_s / answer.everything_s, "ratio")
    return f"{spent}: {share} of about {units.quantity(answer.everything_s, 's', 2)} for all {answer.points} settings"


def _scalar(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_interval(found: Estimate) -> str:
    text = units.quantity(found.value, found.unit)
    if found.low is None or found.high is None:
        return text
    return f"{text} [{units.quantity(found.low, found.unit)}, {units.quantity(found.high, found.unit)}]"

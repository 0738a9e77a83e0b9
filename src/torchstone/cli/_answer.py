"""The answer of a tune: the blocks, the gain over the present settings, the epoch, why, and the settings to write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from torchstone.analysis.advice.choices import Chosen, is_unusable
from torchstone.analysis.summary import RunSummary
from torchstone.cli._blocks import block_lines
from torchstone.cli._run_answer import rate_words
from torchstone.cli._run_blocks import print_files, print_run
from torchstone.cli._table import plain, terminal_width
from torchstone.cli._wording import point_words, scalar_word
from torchstone.core import units
from torchstone.core.schema.answer import Answer
from torchstone.core.schema.estimate import Estimate, too_wide
from torchstone.core.schema.trial import replicates

if TYPE_CHECKING:
    from torchstone.workflows.run.results import Results

_UNCLEAR = "not certain, more --trials would tell"


def in_duel(run: RunSummary) -> RunSummary:
    """Return the run with the Cases of its duel alone, where there was one: the probes of a search are no results."""
    fought = tuple(case for case in run.cases if replicates(case.trials))
    return msgspec.structs.replace(run, cases=fought) if fought else run


def print_tuned(results: Results) -> None:
    """Print a tune that has ended: its answer, the Cases of its duel, what to doubt, and where the files are."""
    run, finalists = results.summary, in_duel(results.summary)
    if run.answer is not None:
        print_tune_answer(run)
    print_answer(run)
    print_run(finalists)
    print_files(results)


def print_tune_answer(run: RunSummary, width: int | None = None) -> None:
    """Print in two sentences what a tune found, how fast it is, and what it gains. Raises ValueError for no tune."""
    if run.answer is None:
        raise ValueError(f"{run.run_id} has no answer")
    print(textwrap.fill(plain(_sentences(run, run.answer)), width or terminal_width(), break_on_hyphens=False))


def _sentences(run: RunSummary, answer: Answer) -> str:
    best = answer.recommended
    case = next(case for case in run.cases if case.case_id == best.case_id)
    settled = "Recommended" if not is_unusable(best) else "Found, but not certain to be the best"
    text = f"{settled}: {point_words(best.point)}, {rate_words(case)}."
    if answer.gain is not None:
        return f"{text} That is {_gain(answer.gain)}."
    if answer.present is not None and answer.present.case_id == best.case_id:
        return f"{text} It is what you have now."
    return text


def print_answer(run: RunSummary, width: int | None = None) -> None:
    """Print the answer of a run that was a tune: what to choose, what it gains, and why."""
    answer = run.answer
    if answer is None:
        return
    width = width or terminal_width()
    chosen = Chosen(answer.highest_throughput, answer.best_efficiency, answer.recommended, answer.pareto)
    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    work, accelerator = case.workload, case.placement.device != "cpu"
    print()
    for line in (*block_lines(chosen, str(work.task), work.item, accelerator=accelerator), "", *_lines(answer)):
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
    yield from (f"  {name}: {scalar_word(value)}" for name, value in answer.settings.items())


def _gain(gain: Estimate) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.value:.3g} times the present settings (one round: no interval)"
    text = units.ratio(gain.value, gain.low, gain.high)
    if text == units.MISSING:
        return f"not known how many times the present settings: {too_wide(gain.trials)}"
    rounds = _UNCLEAR if gain.low <= 1.0 <= gain.high else f"{gain.trials} rounds"
    return f"{text} times the present settings ({rounds})"


def _cost(answer: Answer) -> str:
    spent = f"{answer.probes} probes, {units.quantity(answer.searched_s, 's')}"
    if answer.everything_s is None:
        return f"{spent}; {answer.points} settings"
    share = units.quantity(answer.searched_s / answer.everything_s, "ratio")
    return f"{spent}: {share} of about {units.quantity(answer.everything_s, 's', 2)} for all {answer.points} settings"


def _with_interval(found: Estimate) -> str:
    text = units.quantity(found.value, found.unit)
    ends = units.interval(found.value, found.low, found.high, found.unit)
    return f"{text} [{ends}]" if ends else text

"""A reproduction as a Document: equivalent, different or inconclusive, each case, and what else differs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from torchstone.analysis.compare.compare import JudgedFigure
from torchstone.analysis.compare.task_answers import answers
from torchstone.core import units
from torchstone.core.schema.comparison import Judgement
from torchstone.report.document import Document, Part, Role, Section, Text
from torchstone.report.documents.comparison import comparison_document
from torchstone.workflows.run.reproduction import Reproduced, ReproductionAnswer

_NAMED = 3  # cases in the headline
_OPEN = (Judgement.UNCLEAR, Judgement.NOT_COMPARABLE)


def reproduction_document(found: Reproduced, files: tuple[str, ...] = ()) -> Document:
    """Return what is told of a run that was measured again. `files`: what was written."""
    run_id = found.compared.participants[0].runs[0].head.run_id
    whole = comparison_document(found.compared, answers(found.compared), files)
    return Document(f"reproduction of {run_id}", (Text(_headline(found, run_id), Role.HEADLINE), *_rest(whole.parts)))


def _rest(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Yield the parts of the comparison below the answer; its own headline is a text among others here."""
    for part in parts:
        if isinstance(part, Text) and part.role == Role.HEADLINE:
            yield msgspec.structs.replace(part, role=Role.BODY)
        elif isinstance(part, Section):
            yield msgspec.structs.replace(part, parts=tuple(_rest(part.parts)))
        else:
            yield part


def _headline(found: Reproduced, run_id: str) -> str:
    margin = units.percent(found.compared.margin) if found.compared.margin >= 0.01 else f"{found.compared.margin:.2%}"
    cases = f"{len(found.judged)} case{'s' * (len(found.judged) != 1)}"
    if found.answer == ReproductionAnswer.EQUIVALENT:
        told = f"{cases} measured here as recorded in {run_id}"
        return f"Equivalent: {told}, within the equivalence margin of ±{margin}."
    apart = [one for one in found.judged if one.comparison.verdict in (Judgement.BETTER, Judgement.WORSE)]
    if found.answer == ReproductionAnswer.DIFFERENT:
        told = "; ".join(map(_ratio, apart[:_NAMED])) + (" and more" if len(apart) > _NAMED else "")
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


def _ratio(one: JudgedFigure) -> str:
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

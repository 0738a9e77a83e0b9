"""An examination of a machine as a Document: whether it is fit to measure on, what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core import units
from torchstone.report.diagnosis_messages import text, texts
from torchstone.report.document import Document, Facts, Part, Role, Section, Text
from torchstone.workflows.machine_check.conditions import Fitness
from torchstone.workflows.machine_check.examination import Examination


def machine_check_document(found: Examination) -> Document:
    """Return the verdict with the conditions behind it, then each condition, then the advice."""
    return Document("Machine check", tuple(_parts(found)))


def _parts(found: Examination) -> Iterator[Part]:
    yield Text(_verdict(found), Role.HEADLINE)
    if found.settled_in_a_minute is not None:
        least = units.quantity(found.settled_in_a_minute, "ratio")
        yield Text(f"one minute of `torchstone ab` detects a difference of {least} with a power of 95 %")
    yield Facts(tuple((c.name, f"{c.fitness}: {texts(c.seen, '; ')}") for c in found.conditions))
    advised = tuple((c.name, text(c.advice)) for c in found.conditions if c.advice is not None)
    if advised:
        yield Section("what to do", (Facts(advised),))


def _verdict(found: Examination) -> str:
    behind = [c.name for c in found.conditions if c.fitness == found.verdict] if found.verdict != Fitness.FIT else []
    return f"This machine is {found.verdict}{': ' if behind else ''}{', '.join(behind)}."

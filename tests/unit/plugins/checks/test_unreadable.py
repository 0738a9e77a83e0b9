"""unreadable: how many items were left out, and the first of them."""

from __future__ import annotations

from typing import Any

from build import a_run, a_trial

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins import registry


def look(*facts: dict[str, Any]) -> list[Finding]:
    run: Run = a_run([a_trial(facts=one) for one in facts])
    return list(registry.load("checks", "unreadable").look(run))


def test_it_names_the_first_of_the_trial_that_left_out_most() -> None:
    bad = {"unreadable_items": 3, "unreadable_first": "cats/1.png: torn", "dataset_items": 1000}
    (found,) = look({}, bad, {**bad, "unreadable_items": 1, "unreadable_first": "cats/0.png: torn"})
    assert found.message == "3 items of 1000 could not be read: cats/1.png: torn"
    assert found.severity == Severity.WARNING
    assert not look({}, {"unreadable_items": 0})


def test_a_few_of_very_many_are_told_without_a_doubt() -> None:
    (found,) = look({"unreadable_items": 1, "unreadable_first": "a.png: torn", "dataset_items": 1001})
    assert found.severity == Severity.INFO
    assert found.message == "1 item of 1001 could not be read: a.png: torn"
    (endless,) = look({"unreadable_items": 1, "unreadable_first": "a.png: torn"})
    assert endless.severity == Severity.WARNING

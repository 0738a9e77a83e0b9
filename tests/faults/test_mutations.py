"""Mutation of the instrument: known bugs of benchmarks, in a harness or in a record; each must be found and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from clean import a_clean_run
from faults.harness import Harness, run_of
from faults.mutants import HARNESSES
from faults.record_mutants import RECORDS, sound_record

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checking import look


def doubts(run: Run) -> list[Finding]:
    return [f for f in look(run) if f.severity != Severity.INFO]


def advised(run: Run) -> list[str]:
    """The checks that say what to do about the run."""
    return [f.check for f in doubts(run) if f.advice]


def test_the_harness_without_a_bug_is_believed() -> None:
    assert not doubts(run_of(Harness))


@pytest.mark.parametrize(("bug", "whose", "check"), HARNESSES, ids=[bug.__name__ for bug, _, _ in HARNESSES])
def test_a_bug_in_the_harness_is_found(bug: Callable[[int], Harness], whose: str, check: str) -> None:
    assert check in advised(run_of(bug))


def test_the_record_without_a_bug_is_believed() -> None:
    assert not doubts(sound_record())


@pytest.mark.parametrize(("name", "whose", "check", "make"), RECORDS, ids=[name for name, _, _, _ in RECORDS])
def test_a_bug_in_a_record_is_found(name: str, whose: str, check: str, make: Callable[[], Run]) -> None:
    assert check in advised(make())


def test_so_many_classes_of_bugs() -> None:
    assert len(HARNESSES) >= 25
    assert len(RECORDS) >= 30
    assert len({name for name, *_ in RECORDS} | {bug.__name__ for bug, *_ in HARNESSES}) >= 60


def test_none_of_200_clean_runs_is_flagged() -> None:
    flagged = {seed: found for seed in range(200) if (found := doubts(a_clean_run(seed)))}
    assert not flagged

"""docs/accelerator-findings.md is made of the findings: each names tests that exist, and lines of what mended it."""

import ast
from functools import cache
from pathlib import Path

import pytest
from acceptance.finding_rows import PAGE, findings, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_of_the_findings():
    assert page() == PAGE.read_text(encoding="utf-8"), "python tests/acceptance/finding_rows.py makes it anew"


def test_there_are_all_twenty_four():
    assert [one.number for one in findings()] == list(range(1, 25))


@pytest.mark.parametrize("one", findings(), ids=lambda one: one.id)
def test_a_finding_names_tests_that_exist_and_what_mended_it(one):
    assert one.without
    assert one.tests
    for test in one.tests:
        file, _, name = test.partition("::")
        assert functions_of(file), f"{file} has no tests"
        assert not name or name in functions_of(file), f"{test} is not there"


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))

"""docs/features.md is made of the rows, names every ID once, and tests that exist."""

import ast
from functools import cache
from pathlib import Path

from acceptance.feature_rows import LAST, PAGE, SEEDS, STATES, page, rows
from over import over

ROOT = Path(__file__).parents[2]
ROWS = [(seed, row) for seed in SEEDS for row in rows(seed)]


def test_the_page_is_made_of_the_rows():
    assert page() == PAGE.read_text(encoding="utf-8"), "python tests/acceptance/feature_rows.py makes it anew"


@over("seed", SEEDS)
def test_every_id_of_the_list_has_one_row(seed):
    named = sorted(one for row in rows(seed) for one in row.ids)
    assert named == [f"{seed.upper()}-{number:02}" for number in range(1, LAST[seed] + 1)]


@over("one", [(row.ids[0], (seed, row)) for seed, row in ROWS])
def test_a_row_says_its_state_and_names_tests_that_exist(one):
    seed, row = one
    assert row.state in STATES
    assert bool(row.why) == (row.state not in ("as the seed", "untried")), "what is not as the seed says why"
    assert all(one.startswith(seed.upper()) for one in row.ids)
    if row.state not in ("later", "untried"):
        assert row.tests
        assert row.tried
    for test in row.tests:
        file, _, name = test.partition("::")
        assert not name or name in functions_of(file), f"{test} is not there"


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))

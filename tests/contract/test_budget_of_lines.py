"""How many lines a usual result takes at 80 columns: the answer, what stands against it, the table, one command."""

import pytest
import zoo
from compared_results import a_comparison, a_side

from torchstone.report.document import CommandLine, Document, Section, Table
from torchstone.report.renderers.terminal import terminal

SIZES = (1, 2, 4, 8, 16, 32)
MADE = dict(zoo.ZOO)
MOST = {"ab": 16, "ab: unclear": 16, "recommend: two devices": 25, "history": 20, "cost": 25, "training": 25,
        "memory": 20, "tune": 25, "run: has just ended": 25, "diagnosis": 25}  # fmt: skip


def machines() -> Document:
    sides = (("A", "L4", 1.0), ("B", "RTX 4090", 0.5), ("C", "H200", 0.2))
    return a_comparison(*(a_side(letter, card, by, SIZES) for letter, card, by in sides))


BUDGETS = [*((name, MADE[name], most) for name, most in MOST.items()), ("compare: three machines", machines, 30)]


@pytest.mark.parametrize(("make", "most"), [each[1:] for each in BUDGETS], ids=[name for name, *_ in BUDGETS])
def test_a_usual_result_is_told_in_few_lines(make, most):
    document = make()
    lines = terminal(document, 80).splitlines()
    assert len(lines) <= most
    assert lines[0].startswith((document.headline or "-").split()[0]), "the answer comes first"
    assert len(list(commands(document.parts))) <= 1


def commands(parts):
    for part in parts:
        if isinstance(part, CommandLine):
            yield part
        elif isinstance(part, Section) and not part.folded:
            yield from commands(part.parts)


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_at_no_width_a_figure_of_a_comparison_stands_without_its_interval(width):
    text = terminal(machines(), width)
    table = " ".join(text[text.index("throughput, items/s") :].split())
    assert table.count("2.00 [1.99, 2.01]") == len(SIZES)
    assert table.count(" 3,200 ±1.0 %") == table.count(" 3,200 ")


def test_a_table_has_each_interval_next_to_its_value():
    for name in MOST:
        for part in MADE[name]().parts:
            columns = part.columns if isinstance(part, Table) else ()
            assert all(column.of == place - 1 for place, column in enumerate(columns) if column.of is not None), name

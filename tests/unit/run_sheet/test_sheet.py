"""The table itself: every step can be taken, within its part, and says what it proves."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from over import over
from run_sheet.sheet import FORKS, PART_S, PARTS, STEPS

from torchstone.core.schema.machine import COPY, LAUNCH, MATMUL, PAGEABLE, PINNED, TO_DEVICE, TO_HOST, TRIAD
from torchstone.core.schema.metric import RAW

DEVICES = ("cuda", "rocm", "xpu", "mps", "cpu")
OF_THE_RUN_SHEET = {
    "A": ["A0", "A1", "A2", "A3", "A4", "A5", "A6"], "B": ["B1", "B2", "B3", "B4", "B5", "B6"],
    "C": ["C1", "C2", "C3", "C4"], "D": ["D1", "D2", "D3", "D4"],
}  # fmt: skip
FOLDER = Path(__file__).parents[3] / "benchmarks" / "run_sheet"


def functions(module):
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_steps_are_those_of_the_run_sheet():
    assert {part: [s.id for s in STEPS if s.part == part] for part in PARTS} == OF_THE_RUN_SHEET
    assert FORKS in OF_THE_RUN_SHEET["A"]


@over("step", STEPS, lambda step: str(step.id))
def test_a_step_can_be_taken_and_is_expected_to_show_something(step):
    module, _, name = step.do.partition(":")
    assert name in functions(module)
    assert 0 < step.usual_s <= step.limit_s < PART_S
    assert any(one.holds is not None for one in step.expects)
    assert step.what
    assert step.proves
    assert set(step.absent) <= set(DEVICES)


@over("step", STEPS, lambda step: str(step.id))
@over("device", DEVICES)
def test_on_each_device_a_step_is_expected_to_show_something_or_says_why_not(step, device):
    if step.objection(device, quick=False) is None:
        assert any(one.holds is not None and one.concerns(device, "") and not one.optional for one in step.expects)


@over("part", PARTS)
def test_a_part_is_done_within_nine_minutes(part):
    assert sum(step.usual_s for step in STEPS if step.part == part) <= PART_S < 540


def looked_at(one):
    """The figures that an expectation looks at: its own, and the one that it is held against."""
    seen = {one.name}

    class Figures(dict[str, float]):
        def __getitem__(self, name):
            seen.add(name)
            return 1.0

    if one.holds is not None:
        one.holds(Figures())
    return seen


def nodes_of(module):
    """Every node of a step's module, and of those of the sheet that it has functions from."""
    found = list(ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))))
    others = {node.module for node in found if isinstance(node, ast.ImportFrom) and node.module}
    for other in sorted(others):
        package, _, name = other.partition(".")
        if package == "run_sheet" and name not in ("", "here", "products"):
            found += nodes_of(name)
    return found


def words_of(nodes):
    """What a variable part of a figure's name can be: a word or number of the module, or a name of torchstone's."""
    found = {MATMUL + precision for precision in ("fp32", "tf32", "bf16", "fp16", "fp8")}
    found |= {*RAW, COPY, TRIAD, LAUNCH}
    found |= {f"{way}{kind}" for way in (TO_DEVICE, TO_HOST) for kind in (PINNED, PAGEABLE)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            found.add(f"{node.value:g}" if isinstance(node.value, float) else str(node.value))
    plain = {re.sub(r"[-.]", "_", word).strip("_") for word in found} | {word for word in found if "." in word}
    return sorted(word for word in plain if re.fullmatch(r"[a-z_][a-z0-9_]+|\d[a-z0-9._]*", word))


def tellable(step):
    """A pattern of the figures that the module of a step writes down, by its calls of `note`."""
    nodes = nodes_of(step.do.partition(":")[0].partition(".")[2])
    any_word = "(?:" + "|".join(map(re.escape, words_of(nodes))) + ")"
    part = f"{any_word}(?:_{any_word})?"
    names = []
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "note":
            name = node.args[0]
            pieces = name.values if isinstance(name, ast.JoinedStr) else [name]
            names.append("".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else part for p in pieces))
    return re.compile("|".join(names))


@over("step", STEPS, lambda step: str(step.id))
def test_a_figure_that_is_expected_is_one_that_the_step_can_tell(step):
    told = tellable(step)
    expected = {name for one in step.expects for name in looked_at(one)}
    assert [name for name in sorted(expected) if not told.fullmatch(name)] == []
    assert [name for name in sorted(expected) if told.fullmatch(f"{name}x") or told.fullmatch(f"x{name}")] == []


def test_the_docs_say_of_each_what_it_shows():
    text = (FOLDER.parents[1] / "docs" / "accelerators.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in text.splitlines() if re.match(r"\| [A-D]\d \|", line)]
    assert rows == [step.id for step in STEPS]


def test_the_program_lists_them():
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, str(FOLDER.parent / "accelerator.py"), "--list"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert all(step.what in done.stdout for step in STEPS)

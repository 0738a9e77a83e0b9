"""The table itself: every step can be taken, within its part, and says what it proves."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest
from run_sheet.sheet import FORKS, PART_S, PARTS, STEPS

DEVICES = ("cuda", "rocm", "xpu", "mps", "cpu")
OF_THE_RUN_SHEET = {
    "A": ["A0", "A1", "A2", "A3", "A4", "A5"], "B": ["B1", "B2", "B3", "B4", "B5", "B6"],
    "C": ["C1", "C2", "C3", "C4"], "D": ["D1", "D2", "D3"],
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


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.id)
def test_a_step_can_be_taken_and_is_expected_to_show_something(step):
    module, _, name = step.do.partition(":")
    assert name in functions(module)
    assert 0 < step.usual_s <= step.limit_s < PART_S
    assert any(one.holds is not None for one in step.expects)
    assert step.what
    assert step.proves
    assert set(step.absent) <= set(DEVICES)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.id)
@pytest.mark.parametrize("device", DEVICES)
def test_on_each_device_a_step_is_expected_to_show_something_or_says_why_not(step, device):
    if step.objection(device, quick=False) is None:
        assert any(one.holds is not None and one.concerns(device, "") and not one.optional for one in step.expects)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_done_within_nine_minutes(part):
    assert sum(step.usual_s for step in STEPS if step.part == part) <= PART_S < 540


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.id)
def test_a_figure_that_is_expected_is_one_that_the_step_can_tell(step):
    """By the words of its module: each name, or what is before and behind its variable part, stands in there."""
    module = step.do.partition(":")[0]
    text = (FOLDER / f"{module.partition('.')[2]}.py").read_text(encoding="utf-8")
    pieces = {
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for one in step.expects:
        words = [piece.strip("_") for piece in pieces if len(piece.strip("_")) > 1]
        assert any(word in one.name for word in words), one.name


def test_the_program_lists_them():
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, str(FOLDER.parent / "accelerator.py"), "--list"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert all(step.what in done.stdout for step in STEPS)

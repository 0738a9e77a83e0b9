"""What `ab` prints: B against A by an item's time, and a word where the sides compute something else."""

import math
import re
from types import SimpleNamespace
from typing import Any

from build import a_trial

from torchstone.ab.contest import Contested
from torchstone.cli._ab_blocks import print_ab
from torchstone.terms.comparison import Comparison, Judgement, Side
from torchstone.terms.estimate import Estimate


def printed(capsys, a: dict[str, Any], b: dict[str, Any]) -> str:
    """What is printed of two sides whose pairs say that an item of B takes 0.6 times as long."""
    ratio = Estimate(0.6, 0.55, 0.65, 0.99, "ratio", "pairs", 10, 100)
    found = Comparison(Side("old", "", "a"), Side("new", "", "b"), "step_time", ratio, Judgement.BETTER, 0.02)
    trials = tuple(a_trial(facts={"side": side}, **told) for side, told in (("A", a), ("B", b)))
    results: Any = SimpleNamespace(summary=SimpleNamespace(record="r.jsonl"), document="d.json")
    print_ab(results, Contested(found, trials, 10, 2, 20.0, "settled"))
    text: str = capsys.readouterr().out
    return text


def test_steps_of_other_sizes_are_not_taken_for_one_another(capsys):
    text = printed(capsys, {"items": 4}, {"items": 8})
    assert re.search(r"step time .* \+20\.0 %", text), "0.6 times the time of an item, for twice the items"
    assert re.search(r"throughput .* \+66\.7 %", text)
    assert "a step of B has 2 times the items of one of A" in text
    equal = printed(capsys, {"items": 8}, {"items": 8})
    assert re.search(r"step time .* -40\.0 %", equal)
    assert "times the items" not in equal


def test_a_side_that_computes_no_number_is_told(capsys):
    def sides(x, y):
        return printed(capsys, {"steady": {"fingerprint": [1.5, x]}}, {"steady": {"fingerprint": [1.5, y]}})

    assert "different results: first 2.00000 and nan" in sides(2.0, math.nan)
    assert "different results" in sides(2.0, 2.1)
    assert "different results" not in sides(2.0, 2.0001)
    assert "different results" not in sides(math.nan, math.nan)

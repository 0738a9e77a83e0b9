"""The campaign of benchmarks/aa.py in its shortest form: real processes of equal code, and of code with more to do."""

from __future__ import annotations

import pytest
from aa import case_of

from torchstone.core.schema.comparison import Judgement, Rules
from torchstone.core.schema.procedure import Procedure
from torchstone.workflows.ab.experiment import ExperimentResult, compare_live
from torchstone.workflows.ab.pair import Variant

FALSE_ALARMS = 0.001  # the suite runs every day


def compared_with_itself(layers: int, within_s: float) -> tuple[ExperimentResult, float, float]:
    """Return how an experiment with a network of 20 layers ended, and the ends of its interval."""
    a, b = (Variant(name, case_of("conv infer", number)) for name, number in (("A", 20), ("B", layers)))
    ended = compare_live(a, b, Rules(0.02, FALSE_ALARMS, within_s, 5), Procedure(heap="huge"))
    ratio = ended.comparison.ratio
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    return ended, ratio.low, ratio.high


@pytest.mark.long
def test_equal_code_is_not_called_different() -> None:
    ended, low, high = compared_with_itself(20, 10.0)
    assert ended.comparison.verdict in (Judgement.SAME, Judgement.UNCLEAR)
    assert low <= 1.0 <= high


@pytest.mark.long
def test_half_as_much_again_is_found_and_lies_in_the_interval() -> None:
    ended, low, high = compared_with_itself(30, 45.0)
    assert ended.comparison.verdict == Judgement.WORSE
    assert ended.stopped_because == "settled"
    assert low <= 1.5 <= high * 1.05  # a part of a step is not layers
    assert {trial.facts.heap for trial in ended.trials} == {"huge"}

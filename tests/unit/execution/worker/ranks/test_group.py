"""What the ranks measured, together in rank 0."""

import math

import pytest

from torchstone.core.schema.codec import encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import Measured
from torchstone.core.schema.trial import Measurement, Stage, Status
from torchstone.execution.worker.collector import judged
from torchstone.execution.worker.ranks.group import ALONE, Group, merged


def part(threads, cores, step_s):
    values = {"step_time_s": step_s, "items": 4.0, "window_time_s": step_s}
    taken = tuple(Measurement(name, Stage.STEADY, (value,), "throughput") for name, value in values.items())
    return Measured(taken, Facts("train", threads_in_effect=threads, cores=cores), {"throughput": (1.0, 2.0)})


def test_each_value_has_its_rank_and_what_differs_is_a_fact_of_all():
    found = merged([part(2, "0-1", 0.01), part(1, "2", 0.02)])
    assert [(m.rank, m.values[0]) for m in found.measurements if m.metric == "step_time_s"] == [(0, 0.01), (1, 0.02)]
    assert found.facts == Facts(
        "train", threads_in_effect=2, threads_by_rank=(2, 1), cores_by_rank=("0-1", "2"),
        items_per_s_by_rank=(400.0, 200.0),
    )  # fmt: skip
    assert found.windows_s == {"throughput": (1.0, 2.0)}


class Gathering(Group):
    """The second of two ranks, whose measurements have arrived."""

    def __init__(self, others):
        self.others = others

    def _gathered(self, data):
        return [data, *map(encode, self.others)]


def losing(*losses):
    return Measured((Measurement("loss", Stage.STEADY, losses),), Facts(threads_in_effect=1, cores="0"), {})


def test_a_loss_that_is_no_number_survives_the_way_to_rank_0_and_is_told_with_its_rank():
    found = Gathering([losing(1.0, math.nan, math.nan)]).joined(losing(1.0, 0.5, math.inf))
    assert found is not None
    assert [m.values[1] for m in found.measurements] == [0.5, pytest.approx(math.nan, nan_ok=True)]
    assert judged(found.measurements).message == "the loss is nan from step 2 of 3, of 2 ranks first in 1"
    both = merged([losing(1.0, math.nan), losing(1.0, math.nan)])
    assert judged(both.measurements).message == "the loss is nan from step 2 of 2"
    assert judged(merged([losing(1.0), losing(2.0)]).measurements).status == Status.OK


def test_one_process_agrees_with_itself():
    measured = part(1, "0", 0.01)
    assert ALONE.joined(measured) is measured
    assert ALONE.agreed(3.0) == 3.0

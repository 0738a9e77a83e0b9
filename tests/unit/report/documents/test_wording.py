"""Settings in words."""

from torchstone.core.schema.axis import Scalar
from torchstone.report.documents.run_answer import own_values, point_words


def test_only_what_differs_is_said_of_others():
    best: dict[str, Scalar] = {"batch_size": 32, "precision": "bf16"}
    assert own_values([{"batch_size": 16, "precision": "bf16"}, {"batch_size": 32, "precision": "fp32"}], best) == [
        {"batch_size": 16}, {"precision": "fp32"},
    ]  # fmt: skip


def test_others_can_be_told_apart():
    best: dict[str, Scalar] = {"batch_size": 16, "world_size": 2, "strategy": "ddp"}
    alone: dict[str, Scalar] = {"batch_size": 16, "world_size": 1, "strategy": "none"}
    said = own_values([alone, {**alone, "strategy": "ddp"}], best)
    assert [point_words(one) for one in said] == ["world_size 1, strategy none", "world_size 1, strategy ddp"]

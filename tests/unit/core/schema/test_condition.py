"""Conditions: what holds, what is refused, and that their text is parsed back to them."""

from typing import Any

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.request import comparison_of, parse, without

POINT: dict[str, Any] = {"batch_size": 1024, "precision": "fp32", "pin_memory": True, "learning_rate": 1e-4}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("batch_size=1024", True), ("batch_size = 1024", True), ("batch_size==1024", True), ("batch_size=1|1024", True),
        ("batch_size!=1024", False), ("batch_size!=1|2", True), ("batch_size>=1024", True), ("batch_size>1024", False),
        ("batch_size<=1024", True), ("batch_size<1024", False), ("precision=fp32|tf32", True),
        ("precision!=fp32", False),
        ("pin_memory=yes", True), ("pin_memory=false", False), ("learning_rate<1e-3", True),
        ("batch_size>=1024,precision=fp32", True), ("batch_size>=1024,precision=bf16", False),
        ("num_workers=0", False), ("num_workers!=0", False),
    ],
)  # fmt: skip
def test_all_comparisons_must_hold_and_an_axis_that_is_not_there_is_not_meant(text, holds):
    condition = parse(text)
    assert condition.holds(POINT) is holds
    assert parse(str(condition)) == condition


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (1024, "batch_size=1024"), (">=1024", "batch_size>=1024"), ([1, "2"], "batch_size=1|2"),
        ("!= 3|4", "batch_size!=3|4"),
    ],
)  # fmt: skip
def test_an_entry_of_a_mapping(given, text):
    assert str(comparison_of("batch_size", given)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch_sice=1", "unknown axis 'batch_sice'. Did you mean 'batch_size'"),
        ("batch_size>=many", "axis batch_size: 'many' is not a whole number"),
        ("precision=fp31", "axis precision: unknown value 'fp31'. Did you mean"),
        ("precision>fp16", "axis precision: its values have no order"),
        ("batch_size>1|2", "axis batch_size: > takes one value"),
        ("batch_size=0", "axis batch_size: '0' is too small"),
        ("batch_size=", "axis batch_size: '' is not a whole number"),
        ("batch_size", "'batch_size' is not a condition: write AXIS=VALUE"),
        ("batch_size=1,", "is not a condition"),
        ("", "is not a condition"),
    ],
)
def test_what_is_refused(text, said):
    with pytest.raises(UsageError) as fault:
        parse(text)
    assert said in str(fault.value)


def test_a_list_without_values_is_refused():
    with pytest.raises(UsageError, match="has no value to compare with"):
        comparison_of("batch_size", [])


def test_what_is_left_keeps_its_order_and_nothing_left_says_which_condition_removed_how_many():
    points = [{"batch_size": b, "precision": p} for b in (1, 2, 4) for p in ("fp32", "bf16")]
    assert without(points, ["batch_size>=4,precision=fp32", parse("batch_size=2")]) == [points[0], points[1], points[5]]
    with pytest.raises(
        UsageError, match=r"none of 6 settings is left: batch_size>1 removes 4; precision=fp32\|bf16 removes 2"
    ):
        without(points, ["batch_size>1", "precision=fp32|bf16"])

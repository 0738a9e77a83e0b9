"""Axes: every spelling that means a value, and every one that does not."""

import inspect

import pytest
import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import (
    AXES,
    DATALOADER_AXES,
    LOADER_AXES,
    AxisStage,
    axes_of,
    axis_named,
    axis_values,
    followers,
    scalar_word,
)


@pytest.mark.parametrize(
    ("axis", "text", "value"),
    [
        ("batch_size", "8", 8),
        ("batch_size", 8, 8),
        ("batch_size", " +3 ", 3),
        ("learning_rate", "1e-5", 1e-5),
        ("learning_rate", 1, 1.0),
        ("pin_memory", "yes", True),
        ("pin_memory", "off", False),
        ("pin_memory", True, True),
        ("precision", "bf16", "bf16"),
        ("compile", "max-autotune", "max-autotune"),
        ("channels_last", "auto", "auto"),
        ("channels_last", "on", "on"),
        ("fused", "off", "off"),
        ("sdpa", "flash", "flash"),
        ("precision", "auto", "auto"),
        ("threads", "0", 0),
    ],
)
def test_what_a_word_means(axis, text, value):
    parsed = AXES[axis].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("axis", "text", "said"),
    [
        ("batch_size", "0", "too small"),
        ("batch_size", -1, "too small"),
        ("batch_size", 1.5, "not a whole number"),
        ("batch_size", "1.5", "not a whole number"),
        ("batch_size", "many", "not a whole number"),
        ("batch_size", True, "not a whole number"),
        ("batch_size", "²", "not a whole number"),
        ("learning_rate", "nan", "not a number"),
        ("learning_rate", "inf", "not a number"),
        ("learning_rate", "-1", "too small"),
        ("precision", "fp23", "Did you mean"),
        ("pin_memory", "perhaps", "true or false"),
        ("optimizer", None, "not a word"),
        ("channels_last", "perhaps", "unknown value"),
        ("fused", None, "on, off or auto"),
        ("sdpa", "flush", "Did you mean 'flash'"),
    ],
)
def test_what_is_refused_names_the_axis_and_the_fault(axis, text, said):
    with pytest.raises(UsageError, match=said) as fault:
        AXES[axis].parse(text)
    assert axis in str(fault.value)


def test_every_default_is_a_value_of_its_axis():
    for axis in AXES.values():
        assert axis.parse(axis.default) == axis.default
        assert axis.meaning


@pytest.mark.parametrize("axis", ["channels_last", "fused"])
def test_a_switch_is_said_in_many_words(axis):
    assert [AXES[axis].parse(word) for word in (True, "true", "yes", "ON", "1")] == ["on"] * 5
    assert [AXES[axis].parse(word) for word in (False, "false", "no", "off", "0")] == ["off"] * 5


def test_every_axis_has_a_stage_and_a_dataloader_is_made_with_those_of_its_own():
    assert sorted(axes_of(*AxisStage)) == sorted(AXES)
    assert all(axes_of(stage) for stage in AxisStage)
    assert LOADER_AXES == ("num_workers", "pin_memory", "prefetch_factor")
    assert ("batch_size", *LOADER_AXES) == DATALOADER_AXES
    arguments = inspect.signature(torch.utils.data.DataLoader).parameters
    assert set(DATALOADER_AXES) <= set(arguments)


def test_stages_come_in_the_order_in_which_they_are_asked_for():
    assert axes_of(AxisStage.LOADER, AxisStage.BATCH) == (*LOADER_AXES, "batch_size")


def test_the_learning_rate_follows_the_batch_size_and_nothing_follows_it():
    assert followers("batch_size") == ("learning_rate",)
    assert followers("learning_rate") == ()
    assert {axis.follows for axis in AXES.values()} <= {None, *AXES}


def test_no_two_axes_have_one_flag():
    flags = [axis.flag for axis in AXES.values() if axis.flag is not None]
    assert AXES["batch_size"].flag == "--batch-sizes"
    assert len(set(flags)) == len(flags)


@pytest.mark.parametrize(
    ("name", "among", "said"),
    [
        ("batch_sice", None, "unknown axis 'batch_sice'. Did you mean 'batch_size'?"),
        ("workers", ("num_workers", "feed"), "unknown axis 'workers'. Did you mean 'num_workers'? Known: feed, num_w"),
        ("optimizer", ("feed",), "axis optimizer does not apply to task infer; its axes: feed"),
    ],
)
def test_an_axis_that_there_is_not_is_told_in_one_text(name, among, said):
    with pytest.raises(UsageError) as fault:
        axis_named(name, among, "task infer")
    assert str(fault.value).startswith(said)


def test_an_axis_is_found_by_its_name():
    assert axis_named("batch_size") is AXES["batch_size"]
    assert axis_named("feed", iter(["feed"])).default == "resident"


def test_values_are_parsed_and_each_comes_once():
    assert axis_values("batch_size", ["8", 4, " 8 "]) == (8, 4)
    with pytest.raises(UsageError, match="axis threads has no value; write threads=0"):
        axis_values("threads", [])
    with pytest.raises(UsageError, match="axis batch_size: 'x' is not a whole number"):
        axis_values("batch_size", ["1", "x"])
    with pytest.raises(UsageError, match="unknown axis 'bath'"):
        axis_values("bath", [])


@pytest.mark.parametrize(
    ("value", "word"), [(True, "true"), (False, "false"), (1, "1"), ("bf16", "bf16"), (0.5, "0.5")]
)
def test_a_value_is_written_as_it_is_typed(value, word):
    assert scalar_word(value) == word

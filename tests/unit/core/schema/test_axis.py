"""Axes: every spelling that means a value, and every one that does not."""

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES


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

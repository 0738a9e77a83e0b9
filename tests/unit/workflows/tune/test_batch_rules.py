import pytest

from torchstone.core.errors import UsageError
from torchstone.workflows.tune.space import accumulation_for, learning_rate_for


@pytest.mark.parametrize(
    ("batch_size", "effective", "steps"),
    [(256, 1024, 4), (1024, 1024, 1), (1, 7, 7), (3, 1024, None), (2048, 1024, None)],
)
def test_accumulation_makes_up_the_effective_batch_or_there_is_none(batch_size, effective, steps):
    assert accumulation_for(batch_size, effective) == steps


@pytest.mark.parametrize(
    ("rule", "new", "rate"),
    [("sqrt", 1024, 2e-4), ("sqrt", 64, 5e-5), ("linear", 1024, 4e-4), ("linear", 64, 2.5e-5), ("sqrt", 512, 1.41e-4)],
)
def test_the_learning_rate_follows_the_effective_batch(rule, new, rate):
    assert learning_rate_for(1e-4, 256, new, rule) == rate


def test_the_seeds_own_example_keeps_its_effective_batch_and_so_its_rate():
    # 256 × 4 stands for 1024: whatever the rule, and with every digit the user gave.
    steps = accumulation_for(256, 1024)
    assert steps is not None
    assert learning_rate_for(0.000123456, 1024, 256 * steps, "sqrt") == 0.000123456


@pytest.mark.parametrize(("effective", "new", "rule"), [(0, 4, "sqrt"), (4, 0, "linear"), (4, 8, "cubic")])
def test_what_is_no_batch_or_no_rule_is_refused(effective, new, rule):
    with pytest.raises(UsageError):
        learning_rate_for(1e-4, effective, new, rule)

"""What is said in place of an interval that is too wide."""

from torchstone.core.messages import too_wide


def test_more_trials_are_asked_for_and_of_probes_alone_none_are_counted():
    assert too_wide(12).startswith("12 trials differ too much")
    assert too_wide(12).endswith("--trials 24")
    assert too_wide(0) == "probes alone differ too much for an interval (wider than ±50 %)"

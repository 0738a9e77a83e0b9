import json

import pytest
from fake_steps import here
from run_sheet import truth
from run_sheet.here import Done, Refused


def stepping(hands, rates, *, device="cuda", quick=False):
    """hands: seconds a step by hand, each time it is asked; rates: items a second by torchstone, or None."""
    hands, rates = iter(hands), iter(rates)

    def python(*words, **_):
        step_s = next(hands)
        text = json.dumps({"step_s": step_s, "peak_bytes": 100}) if step_s else ""
        return Done(words, 0 if step_s else 1, f"a warning\n{text}\n", "RuntimeError: no kernel", 1.0)

    def torchstone(*words, **_):
        batch = next(int(word.partition("=")[2]) for word in words if word.startswith("batch_size="))
        rate = next(rates)
        estimates = {"throughput": {"value": rate}, "peak_allocated_bytes": {"value": 101}} if rate else {}
        trials = [{"outcome": {"status": "ok" if rate else "crashed", "message": "why"}}]
        case = {"configuration": {"batch_size": batch}, "estimates": estimates, "trials": trials}
        return Done(words, 0, json.dumps({"cases": [case]}), "", 1.0)

    return here(
        device=device, torch_kind=device, on_cpu=device == "cpu", quick=quick, python=python, torchstone=torchstone
    )


def test_a_drift_between_the_two_runs_by_hand_cancels():
    step = stepping([0.100, 0.121] * 4, [256 / 0.110, 16 / 0.110, 16 / 0.110, 256 / 0.110])
    truth.compare(step)
    for name in ("resnet", "bert", "gpt2", "generate"):
        assert step.told[f"ours_over_hand_{name}"] == pytest.approx(1.0)
        assert step.told[f"hands_apart_{name}"] == pytest.approx(1.21)
        assert step.told[f"peak_over_hand_{name}"] == pytest.approx(1.01)


def test_a_loop_that_fails_says_so_and_what_was_measured_is_told():
    step = stepping([0.1, 0.1, None, 0.1, 0.1, 0.1, 0.1], [256 / 0.1, 16 / 0.1, 256 / 0.1])
    with pytest.raises(Refused, match="gpt2 by hand: RuntimeError: no kernel"):
        truth.compare(step)
    for name in ("bert", "generate", "resnet"):
        assert step.told[f"ours_over_hand_{name}"] == pytest.approx(1.0)
    assert step.told["compared"] == 3


def test_a_run_without_a_rate_says_how_it_ended():
    with pytest.raises(Refused, match="bert by torchstone: crashed: why"):
        truth.compare(stepping([0.1] * 8, [None, None, None, None]))


def test_on_a_cpu_the_small_twins_are_compared_in_fp32():
    step = stepping([0.01] * 4, [8 / 0.01, 4 / 0.01], device="cpu")
    truth.compare(step)
    assert set(step.told) >= {"ours_over_hand_bert_tiny", "ours_over_hand_generate_tiny"}
    assert "ours_over_hand_bert" not in step.told
    quick = stepping([0.01] * 2, [8 / 0.01], device="cpu", quick=True)
    truth.compare(quick)
    assert quick.told["compared"] == 1

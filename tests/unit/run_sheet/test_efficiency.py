import json

import pytest
from fake_steps import here
from run_sheet import efficiency
from run_sheet.here import Done, Refused


def told(*shares, on_cpu=False):
    """What the step tells where runs have these shares: one mapping a training."""
    waiting = iter(shares)
    names = []

    def torchstone(*words, **_):
        if words[0] == "machine":
            return Done(words, 0, "{}", "peaks were measured", 1.0)
        shares = next(waiting)
        if shares is None:
            return Done(words, 1, "", "torchstone: no kernel", 1.0)
        estimates = {name: {"value": value} for name, value in shares.items()}
        case = {"estimates": estimates, "trials": [{"outcome": {"status": "ok"}}]}
        return Done(words, 0, json.dumps({"cases": [case]}), "", 1.0)

    def write(name, content):
        names.append(content["workloads"][0])
        return name

    step = here(on_cpu=on_cpu, write=write, torchstone=torchstone)
    efficiency.compare(step)
    return step.told, names


def test_the_share_is_of_what_is_kept_up_where_that_is_known():
    found, asked = told({"mfu_measured": 0.4, "mfu_sustained": 0.5}, {"mfu_measured": 0.45}, {"mfu_sustained": 0.6})
    assert (found["mfu_vit"], found["mfu_bert"], found["mfu_gpt2"]) == (0.5, 0.45, 0.6)
    assert (found["mfu_of_vit"], found["mfu_of_bert"]) == ("kept up for seconds", "a burst")
    assert found["largest_mfu"] == 0.6
    assert {work["axes"]["precision"] for work in asked} == {"bf16"}
    assert {work["axes"]["compile"] for work in asked} == {"default"}


def test_on_a_cpu_it_is_a_small_one():
    found, asked = told({"mfu_measured": 0.3}, on_cpu=True)
    assert found["largest_mfu"] == found["mfu_bert_tiny"] == 0.3
    assert [work["model"] for work in asked] == ["hf:bert-tiny"]


def test_one_that_fails_leaves_the_others_measured():
    found, _ = told({"mfu_measured": 0.4}, None, {"mfu_measured": 0.6})
    assert (found["told"], found["mfu_vit"], found["mfu_gpt2"]) == (2, 0.4, 0.6)
    assert "no kernel" in found["why_bert"]


def test_without_a_peak_there_is_no_share():
    with pytest.raises(Refused, match="no share of a peak was told: peaks were measured"):
        told({}, {}, {})

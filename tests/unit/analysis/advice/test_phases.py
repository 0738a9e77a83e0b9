"""Phases: decided by share of the step, and advising only what is not set."""

from typing import Any

import pytest
from build import a_case

from torchstone.analysis.advice.causes import phase_causes
from torchstone.analysis.advice.rules import Evidence
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.case import Placement, Task
from torchstone.report.diagnosis_messages import advice_text

CONFIGURATION: dict[str, Any] = {
    "num_workers": 4, "pin_memory": False, "precision": "fp32", "compile": "off", "feed": "loader",
    "optimizer": "adamw", "fused": "auto", "gradient_checkpointing": False,
}  # fmt: skip


def told(phases, cores=16, accelerator=True, utilization=None, **changes):
    task = Task.INFER if "forward" in phases and "backward" not in phases else Task.TRAIN
    case = a_case({**CONFIGURATION, **changes}, task=task, placement=Placement("cuda" if accelerator else "cpu"))
    used = {} if utilization is None else {"device_utilization": utilization}
    evidence = Evidence(case, {**{f"phase_{name}_s": time_s for name, time_s in phases.items()}, **used}, cores=cores)
    found = phase_causes(evidence)
    return [advice_text(Advice((*one.evidence, one.title), one.usual, one.remedies)) for one in found]


def test_data_that_holds_the_step_up():
    (one,) = told({"data": 0.050, "forward": 0.010, "backward": 0.020}, utilization=0.4)
    assert one.startswith(
        "data is 62 % of the step (50.0 ms, more than the usual 30 ms); the device is in use 40 % of the time"
    )
    assert "in use 40 % of the time, less than the usual 70 %" in one
    assert "; the step waits for the loader. " in one
    assert "Causes: slow disk, too few workers, costly preprocessing" in one
    assert "Try: num_workers=8,12,16; pin_memory=true; a faster disk (SSD)" in one


def test_the_share_decides_not_the_milliseconds():
    assert not told({"data": 0.040, "rest": 0.960 * 0.05, "forward": 0.4, "backward": 0.5})[1:]
    assert "data is 50 %" in told({"data": 1e-4, "forward": 5e-5, "backward": 5e-5})[0]


@pytest.mark.parametrize(
    ("changes", "there", "absent"),
    [
        ({"pin_memory": True}, "num_workers=8", "pin_memory"),
        ({"accelerator": False}, "num_workers=8", "pin_memory"),
        ({"cores": 4}, "a faster CPU: 4 workers on 4 cores", "num_workers="),
        ({"num_workers": 0, "cores": 2}, "num_workers=2", "num_workers=2,4"),
    ],
)
def test_what_is_set_already_is_not_advised(changes, there, absent):
    (one,) = told({"data": 0.9, "forward": 0.05, "backward": 0.05}, **changes)
    assert there in one
    assert absent not in one


def test_computing_that_limits():
    phases = {"data": 0.001, "forward": 0.4, "backward": 0.5, "optimizer": 0.05}
    (one,) = told(phases)
    assert "forward is 42 % of the step" in one
    assert "backward is 53 % of the step" in one
    assert "Try: precision=bf16; compile=default; gradient_checkpointing=true" in one
    assert "Causes: complex model, large batch, inefficient operations, complex graph of the backward pass. Try" in one
    (other,) = told(phases, precision="bf16", compile="default", gradient_checkpointing=True)
    assert other.endswith("Try: a lighter model")
    (small,) = told(phases, batch_size=8)
    assert "large batch" not in small
    (inference,) = told({"forward": 1.0})
    assert "checkpointing" not in inference
    assert "Causes: complex model, large batch, inefficient operations. Try" in inference


def test_s2_34_a_device_that_computes_and_is_not_filled_says_so_with_its_causes():
    phases = {"data": 0.03, "forward": 0.4, "backward": 0.5, "optimizer": 0.05, "rest": 0.02}
    computing, idle = told(phases, utilization=0.5)
    assert "large batch" not in computing, "the batch is no cause of what it does not fill"
    assert idle == (
        "the device is in use 50 % of the time, less than the usual 70 %; data is 3 % of the step; the device is not "
        "filled. Causes: batch too small, launches and synchronisation between its kernels. Try: a larger batch; "
        "compile=default"
    )
    assert len(told(phases, utilization=0.7)) == len(told(phases, utilization=None)) == 1
    (loads,) = told({"data": 0.9, "forward": 0.1}, utilization=0.5)
    assert loads.count("less than the usual 70 %") == 1, "a loader that is waited for says it itself"
    idle, computing, loads = told({"data": 0.14, "forward": 0.3, "backward": 0.5, "rest": 0.06}, utilization=0.15)
    assert "data is 14 % of the step; the device is not filled. Causes: batch too small" in idle, (
        "the least of it is the loader"
    )
    assert "usual 70 %" not in computing + loads


def test_s2_34_without_phases_it_may_be_the_loader_too():
    (idle,) = told({}, utilization=0.2)
    assert idle.startswith(
        "the device is in use 20 % of the time, less than the usual 70 %; the device is not filled. Causes:"
    )
    assert "a loader that is waited for, batch too small" in idle
    assert "Try: a larger batch; compile=default; num_workers=8,12,16" in idle


def test_transfer_optimizer_and_rest_have_their_own_words_the_largest_first():
    phases = {"transfer": 0.2, "forward": 0.1, "backward": 0.1, "optimizer": 0.35, "rest": 0.25}
    optimizer, rest, transfer = told(phases, fused="off")
    assert "optimizer is 35 %" in optimizer
    assert "fused=on" in optimizer
    assert "rest is 25 %" in rest
    assert "pin_memory=true" in transfer
    assert "pin_memory" not in told(phases, pin_memory=True)[2]


def test_an_optimizer_beside_a_small_batch_is_not_blamed_on_the_model():
    phases = {"forward": 0.3, "backward": 0.3, "optimizer": 0.4}
    small = told(phases, batch_size=1)[-1]
    assert "Causes: small batch, AdamW. Try: a larger batch; grad_accumulation: fewer updates for each item" in small
    large = told(phases, batch_size=64)[-1]
    assert "Causes: large model, small batch, AdamW. Try: a larger batch or grad_accumulation" in large
    assert "Causes: large model" in told(phases, batch_size=1, grad_accumulation=64)[-1]


def test_nothing_measured_nothing_said():
    assert told({}) == []
    assert told({"forward": 0.0}) == []


def test_decoding_that_limits_is_shared_by_a_larger_batch():
    (one,) = told({"data": 0.001, "prefill": 0.2, "decode": 0.79, "rest": 0.009})
    assert one.startswith("prefill is 20 % of the step (200 ms); decode is 79 % of the step (790 ms); computing")
    assert "a larger batch: a token of every item shares one reading of the weights" in one
    assert "shares" not in told({"prefill": 0.9, "decode": 0.1})[0]

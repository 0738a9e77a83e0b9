"""`torchstone.measure` and `torchstone.window` in the user's own process, and the examples."""

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import torchstone
from torchstone.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK: Any = {"trials": 2, "warmup": 1, "iterations": 4}


def shown(capsys, word="latest"):
    capsys.readouterr()
    assert main(["show", word, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def only(run):
    (case,) = run.cases
    assert {str(t.outcome.status) for t in case.trials} == {"ok"}
    return case


class Labelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, features, labels=None):
        output = self.layer(features)
        if labels is None:
            return output
        return SimpleNamespace(logits=output, loss=nn.functional.cross_entropy(output, labels))


class Pair(nn.Module):
    def forward(self, left, right):
        return left @ right.T


def test_inference_of_a_module_at_hand_is_an_ordinary_run(capsys, outputs):
    run = torchstone.measure(nn.Linear(6, 3), torch.randn(5, 6), **QUICK)
    case = only(run)
    assert case.configuration["batch_size"] == 5
    assert case.estimates["throughput"].value > 0
    assert case.estimates["latency_per_batch_p50_s"].value > 0
    assert case.estimates["total_items"].value == 2 * 4 * 5, "two windows of four steps of five rows"
    assert capsys.readouterr().out == ""
    assert Path(run.record).is_relative_to(outputs)
    found = shown(capsys)
    assert found["run_id"] == run.run_id
    assert found["name"] == "Linear"
    assert found["procedure"]["isolation"] == "inline"


@pytest.mark.parametrize(
    ("module", "batch"),
    [(Pair(), (torch.randn(4, 2), torch.randn(4, 2))), (Labelled(), {"features": torch.randn(4, 6)})],
    ids=["tuple", "mapping"],
)
def test_inputs_by_place_and_by_name(module, batch):
    assert only(torchstone.measure(module, batch, **QUICK)).configuration["batch_size"] == 4


def test_training_with_a_loss_and_an_optimizer(tmp_path):
    module = nn.Linear(6, 3)
    before = module.weight.detach().clone()
    run = torchstone.measure(
        module, (torch.randn(5, 6), torch.randint(0, 3, (5,))), task="train", loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), name="mine", output_dir=tmp_path / "else",
        **QUICK,
    )  # fmt: skip
    case = only(run)
    assert 0.0 < case.estimates["loss_last"].value < 3.0
    assert not torch.equal(before, module.weight)
    assert run.name == "mine"
    assert Path(run.record).is_relative_to(tmp_path / "else")


def test_training_on_the_modules_own_loss():
    batch = {"features": torch.randn(5, 6), "labels": torch.randint(0, 3, (5,))}
    case = only(torchstone.measure(Labelled(), batch, task="train", batch_size=8, **QUICK))
    assert case.configuration["batch_size"] == 8
    assert case.estimates["total_items"].value == 4 * 8


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "infr"}, "Did you mean 'infer'?"),
        ({"precison": "bf16"}, "Did you mean 'precision'?"),
        ({"precision": "bf61"}, "Did you mean 'bf16'?"),
        ({"batch_size": 0}, "too small"),
        ({"image_size": 32}, "unknown axis 'image_size'"),
        ({"device": "cud"}, "Did you mean 'cuda'?"),
        ({"trials": 0}, "trials=0 is too small"),
        ({"iterations": 0}, "iterations=0 is too small"),
        ({"loss": 3}, "loss"),
        ({"task": "train"}, "pass loss="),
    ],
    ids=str,
)
def test_a_wrong_request_says_what_there_is_and_writes_nothing(outputs, changes, said):
    with pytest.raises(torchstone.UsageError, match=said.replace("?", r"\?")):
        torchstone.measure(nn.Linear(6, 3), torch.randn(5, 6), **{**QUICK, **changes})
    assert not outputs.exists()


def test_a_batch_without_tensors_is_refused(outputs):
    with pytest.raises(torchstone.UsageError, match="tensor"):
        torchstone.measure(nn.Linear(6, 3), ["words"], **QUICK)
    assert not outputs.exists()


def test_what_the_module_raises_goes_on_and_nothing_is_written(outputs):
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        torchstone.measure(nn.Linear(6, 3), torch.randn(5, 7), **QUICK)
    assert not outputs.exists()


def test_a_summary_prints_as_a_few_lines():
    text = str(torchstone.measure(nn.Linear(6, 3), torch.randn(5, 6), **QUICK))
    assert "infer module:Linear, batch 5, on " in text
    assert "2 of 2 trials" in text
    line = next(line for line in text.splitlines() if line.startswith("  throughput"))
    assert "items/s" in line
    assert "[" in line, "with its interval"
    assert "662" not in text, "the percentiles that nobody asked for are left to `torchstone show`"
    assert text.splitlines()[-1].startswith("record ")
    assert len(text.splitlines()) < 20


def loop(name="train", steps=12, nap_s=0.0, **settings):
    """A real loop of three phases, one of which may sleep."""
    model = nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchstone.window(name, **settings) as window:
        for features, labels in window.batches((torch.randn(8, 32), torch.randint(0, 4, (8,))) for _ in range(steps)):
            with window.phase("forward"):
                loss = nn.functional.cross_entropy(model(features), labels)
            with window.phase("backward"):
                loss.backward()
            if nap_s:
                with window.phase("nap"):
                    time.sleep(nap_s)
            with window.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
    return window


def recorded(window):
    """The steady steps of a window's record, and those of each phase."""
    lines = [json.loads(line) for line in Path(window.summary.record).read_text().splitlines()]
    (trial,) = [line for line in lines if line["record"] == "trial"]
    steady = [m for m in trial["measurements"] if m["stage"] == "steady"]
    steps = next(m["values"] for m in steady if m["metric"] == "step_time_s")
    return steps, {m["phase"]: m["values"] for m in steady if m["metric"] == "phase_time_s"}


def test_a_loop_of_ones_own_is_recorded_and_its_phases_sum_to_the_step(capsys):
    window = loop("mine", steps=30, warmup=5)
    run = window.summary
    case = only(run)
    assert case.estimates["total_items"].value == 25 * 8
    assert case.estimates["steps"].value == 25
    assert set(window.phases_s) == {"data", "forward", "backward", "optimizer", "rest"}
    assert sum(window.phases_s.values()) == pytest.approx(case.estimates["step_time_mean"].value, abs=1e-9)
    found = shown(capsys)
    assert found["run_id"] == run.run_id
    assert found["name"] == "mine"
    steps, phases = recorded(window)
    assert len(phases) == 5
    for step_s, *parts_s in zip(steps, *phases.values(), strict=True):
        assert sum(parts_s) == pytest.approx(step_s, abs=1e-9)


@pytest.mark.alone
def test_a_planted_pause_is_found_in_its_phase():
    window = loop(steps=12, nap_s=0.020, warmup=2)
    phases = {name: median(spent_s) for name, spent_s in recorded(window)[1].items()}
    assert phases["nap"] == pytest.approx(0.020, abs=0.002)
    assert phases["rest"] < 0.001, "and it is in no other"
    text = str(window)
    assert "  nap  " in text
    assert "% of a step" in text
    assert "train loop:train, batch 8, on " in text


@pytest.mark.alone
def test_waiting_for_a_batch_is_the_phase_data():
    def slowly():
        for _ in range(8):
            time.sleep(0.010)
            yield torch.zeros(4, 2)

    with torchstone.window("wait", task="infer", warmup=1) as window:
        for batch in window.batches(slowly()):
            batch.sum()
    assert median(recorded(window)[1]["data"]) == pytest.approx(0.010, abs=0.002)
    assert only(window.summary).estimates["data_wait_share"].value > 0.9


def test_a_window_refuses_what_would_not_add_up(outputs):
    with pytest.raises(torchstone.UsageError, match="phases do not nest"), torchstone.window("w") as window:
        for _ in window.batches([torch.zeros(2)]):
            with window.phase("outer"), window.phase("inner"):
                pass
    with pytest.raises(torchstone.UsageError, match="used already"), torchstone.window("w") as window:
        list(window.batches([torch.zeros(2)]))
        list(window.batches([torch.zeros(2)]))
    with pytest.raises(torchstone.UsageError, match="no step was measured"), torchstone.window("w") as window:
        list(window.batches([]))
    with pytest.raises(torchstone.UsageError, match="infer, load, train"):
        torchstone.window("w", task="trian")
    assert not outputs.exists()


def test_an_exception_in_the_block_goes_on_and_nothing_is_written(outputs):
    window = torchstone.window("w")
    with pytest.raises(ZeroDivisionError), window:
        for _ in window.batches([torch.zeros(2), torch.zeros(2)]):
            with window.phase("work"):
                1 / 0  # noqa: B018
    assert window.summary is None
    assert "not measured" in str(window)
    assert not outputs.exists()


def test_a_loop_that_is_left_early_is_measured_as_far_as_it_went():
    with torchstone.window("w", warmup=1) as window:
        for number, _ in enumerate(window.batches([torch.zeros(2)] * 9)):
            if number == 5:
                break
    assert only(window.summary).estimates["steps"].value == 4


def started(*words, **settings):
    answer = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=False, **settings
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_examples_run(tmp_path):
    assert "items/s" in started(str(EXAMPLES / "own_loop.py"), cwd=tmp_path)
    words = ["--task", "train", "--model", f"py:{EXAMPLES}/my_model.py:load", "--trials", "1", "--iterations", "3"]
    assert "throughput" in started("-m", "torchstone", "run", *words, "--strict")

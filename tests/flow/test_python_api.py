"""`torchstone.measure` and `torchstone.window` in the user's own process, and the examples."""

import copy
import importlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import torchstone
from torchstone.cli import main
from torchstone.core.schema.case import Task, Workload
from torchstone.plugins import registry

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
    run = torchstone.measure(
        nn.Linear(6, 3), (torch.randn(5, 6), torch.randint(0, 3, (5,))), task="train", loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), name="mine", output_dir=tmp_path / "else",
        **QUICK,
    )  # fmt: skip
    case = only(run)
    assert 0.0 < case.estimates["loss_last"].value < 3.0
    assert run.name == "mine"
    assert Path(run.record).is_relative_to(tmp_path / "else")


def trials_of(run):
    lines = [json.loads(line) for line in Path(run.record).read_text().splitlines()]
    return [line for line in lines if line["record"] == "trial"]


def losses_of(trial, first=5):
    """The first losses: how many steps warm up differs."""
    return next(m["values"] for m in trial["measurements"] if m["metric"] == "loss")[:first]


def test_every_trial_trains_the_same_weights_and_nothing_is_left_of_it():
    module: Any = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    batch, loss = (torch.randn(8, 6), torch.randint(0, 3, (8,))), nn.functional.cross_entropy
    loss(module(batch[0]), batch[1]).backward()
    optimizer.step()
    before, state = copy.deepcopy(module.state_dict()), copy.deepcopy(optimizer.state_dict())
    gradients, drawn = [p.grad.clone() for p in module.parameters()], torch.get_rng_state()
    threads, filters = torch.get_num_threads(), list(warnings.filters)
    run = torchstone.measure(
        module, TensorDataset(*batch), task="train", loss=loss, optimizer=lambda _: optimizer, threads=1, trials=3,
        batch_size=8, warmup=1, iterations=5,
    )  # fmt: skip
    trials = trials_of(run)
    assert losses_of(trials[0]) == losses_of(trials[1]) == losses_of(trials[2])
    assert len(set(losses_of(trials[0]))) > 3, "it did train"
    assert not [f for f in only(run).findings if f.check == "fingerprint_moved"]
    for trial in trials:
        assert trial["facts"]["kept_bytes"] == sum(t.numel() * t.element_size() for t in before.values()) + sum(
            t.numel() * t.element_size() for one in state["state"].values() for t in one.values()
        ), "one copy of the module, one of the optimizer's state"
        assert trial["facts"]["kept_s"] > 0.0
        assert trial["facts"]["restored_s"] > 0.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert str(optimizer.state_dict()) == str(state)
    assert all(torch.equal(p.grad, g) for p, g in zip(module.parameters(), gradients, strict=True))
    assert module.training
    assert torch.equal(torch.get_rng_state(), drawn)
    assert torch.get_num_threads() == threads
    assert list(warnings.filters) == filters


def test_a_window_leaves_what_the_loop_trains_and_draws():
    module, drawn = nn.Linear(32, 4), torch.get_rng_state()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    data = [torch.randn(8, 32) for _ in range(4)]
    after, before = torch.get_rng_state(), module.weight.detach().clone()
    with torchstone.window("mine", warmup=1) as window:
        for features in window.batches(data):
            optimizer.zero_grad()
            module(features).sum().backward()
            optimizer.step()
    assert not torch.equal(module.weight, before), "what a loop of one's own trains stays trained"
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(after, drawn)


def test_a_lazy_module_is_measured_and_lazy_again():
    module: Any = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(3))
    batch = (torch.randn(8, 6), torch.randint(0, 3, (8,)))
    for data in (batch, TensorDataset(*batch)):
        run = torchstone.measure(
            module, data, task="train", loss=nn.functional.cross_entropy, batch_size=4, **QUICK
        )  # fmt: skip
        only(run)
        first, second = trials_of(run)
        assert losses_of(first) == losses_of(second)
        assert first["facts"]["parameters"] == 6 * 5 + 5 + 5 * 3 + 3
        assert torch.nn.parameter.is_lazy(module[0].weight)


def test_a_lazy_module_that_is_refused_is_lazy_again():
    module: Any = nn.Sequential(nn.LazyLinear(5), nn.Linear(7, 3))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        torchstone.measure(module, torch.randn(8, 6), **QUICK)
    assert torch.nn.parameter.is_lazy(module[0].weight)


def test_batches_that_come_only_once_are_refused_before_any_is_taken(outputs):
    batches = (torch.randn(4, 6) for _ in range(3))
    with pytest.raises(torchstone.UsageError, match="gives its batches only once") as refused:
        torchstone.measure(nn.Linear(6, 3), batches, **QUICK)
    assert "\n" not in str(refused.value)
    assert len(list(batches)) == 3
    assert not outputs.exists()


def test_an_output_that_is_not_a_number_makes_no_valid_run():
    module = nn.Linear(6, 3)
    with torch.no_grad():
        module.weight[0, 0] = float("nan")
    run = torchstone.measure(module, torch.randn(5, 6), **QUICK)
    case = only(run)
    assert [str(f.severity) for f in case.findings if f.check == "nan_output"] == ["error"]
    assert str(case.verdict) == "INVALID"


class Once(IterableDataset[Any]):
    """Looks as if it could be read anew, and cannot."""

    def __init__(self, items: int):
        self.items = iter([(torch.randn(6), 0)] * items)

    def __iter__(self):
        return self.items


@pytest.mark.parametrize("items", [8, 20])
def test_data_that_end_on_the_way_are_told_in_one_line(outputs, items):
    module = nn.Linear(6, 3)
    before = module.weight.detach().clone()
    with pytest.raises(torchstone.UsageError, match="its data ended before the trial did") as refused:
        torchstone.measure(module, Once(items), task="train", loss=nn.functional.cross_entropy, batch_size=4, **QUICK)
    assert "\n" not in str(refused.value)
    assert torch.equal(module.weight, before)
    assert not outputs.exists()


@pytest.mark.parametrize("measured", ["measure", "Diagnostics"])
def test_ctrl_c_in_the_middle_of_a_step_leaves_everything_as_it_was(outputs, measured):
    class Interrupted(nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 4:
                signal.raise_signal(signal.SIGINT)
            return super().forward(x)

    module, loss = Interrupted(6, 3).eval(), nn.functional.cross_entropy
    before, drawn = module.weight.detach().clone(), torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        if measured == "measure":
            torchstone.measure(module, PAIRS, task="train", loss=loss, **QUICK)
        else:
            torchstone.Diagnostics(module, loss, torch.optim.SGD).run(PAIRS, [8], devices=["cpu"])
    assert torch.equal(module.weight, before)
    assert module.calls == 0
    assert not module.training
    assert module.weight.grad is None
    assert torch.equal(torch.get_rng_state(), drawn)
    assert not outputs.exists()


def test_a_benchmark_leaves_the_process_that_asked_for_it_as_it_was(mine):
    def world():
        here = Path("/proc/self/task") / str(os.getpid()) / "children"
        return {
            "environment": dict(os.environ), "path": list(sys.path), "folder": os.getcwd(),
            "handlers": [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)],
            "random": (random.getstate(), torch.get_rng_state().tolist()), "torch threads": torch.get_num_threads(),
            "threads": threading.enumerate(), "warnings": list(warnings.filters),
            "processes": here.read_text() if here.exists() else "",
        }  # fmt: skip

    before = world()
    torchstone.benchmark(mine.load, device="cpu", procedure=SHORT)
    assert world() == before


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
        ({"image_size": 32}, "axis image_size does not apply to task infer of a module at hand"),
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


class Flowing(IterableDataset[Any]):
    def __iter__(self):
        return iter((torch.randn(6), 0) for _ in range(64))


PAIRS = TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,)))


@pytest.mark.parametrize(
    ("data", "axes", "size"),
    [
        (DataLoader(PAIRS, batch_size=16, shuffle=True), {}, 16),
        (DataLoader(PAIRS, batch_size=16, num_workers=1), {"batch_size": 4, "num_workers": 0}, 4),
        (DataLoader(PAIRS, batch_size=8, num_workers=1), {}, 8),
        (DataLoader(PAIRS, batch_sampler=[[0, 1], [2, 3]]), {}, 2),
        (DataLoader(Flowing(), batch_size=8), {}, 8),
        (PAIRS, {"batch_size": 32}, 32),
        ([PAIRS[:5], PAIRS[5:10]], {}, 5),
    ],
    ids=["loader", "other size", "workers", "batch sampler", "flowing", "data set", "batches"],
)
def test_any_loader_is_measured_with_its_own_settings_unless_told_otherwise(data, axes, size):
    module = nn.Linear(6, 3)
    case = only(torchstone.measure(module, data, task="train", loss=nn.functional.cross_entropy, **axes, **QUICK))
    assert case.configuration["batch_size"] == size
    assert case.configuration["feed"] == "loader"
    assert case.configuration["num_workers"] == (1 if getattr(data, "num_workers", 0) and not axes else 0)
    assert case.estimates["total_items"].value == 4 * size
    assert case.workload.data == f"loader:{type(data).__name__}"


def test_inference_leaves_a_loaders_targets_out_and_the_loader_alone_can_be_measured():
    loader = DataLoader(PAIRS, batch_size=16)
    case = only(torchstone.measure(nn.Linear(6, 3), loader, **QUICK))
    assert case.estimates["dataset_time_s"].value > 0, "a data set has an end"
    assert only(torchstone.measure(nn.Linear(6, 3), loader, task="load", **QUICK)).configuration["batch_size"] == 16


def test_a_loader_that_cannot_be_made_anew_refuses_other_sizes(outputs):
    loader = DataLoader(PAIRS, batch_sampler=[[0, 1], [2, 3]])
    with pytest.raises(torchstone.UsageError, match="used as they come, with batch_size=2"):
        torchstone.measure(nn.Linear(6, 3), loader, batch_size=4, **QUICK)
    assert not outputs.exists()


MINE = """import torch
import torchstone

def load(device, hidden=8):
    model = torch.nn.Sequential(torch.nn.Linear(6, int(hidden)), torch.nn.Linear(int(hidden), 3)).to(device)
    data = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,)))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    return model, loader, lambda parameters: torch.optim.SGD(parameters, lr=0.1), torch.nn.CrossEntropyLoss()
"""
SHORT = torchstone.Procedure(trials=1, iterations=3, phases=False)
ABSENT = "cuda" if not torch.cuda.is_available() else "mps"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A file of the user's own, imported as their program would have it."""
    (tmp_path / "mine_of_test.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("mine_of_test")
    sys.modules.pop("mine_of_test", None)


def test_a_registered_model_is_measured_in_fresh_processes(mine, tmp_path, capsys):
    known = torchstone.register_model("mine", mine.load)
    assert known.spec == f"py:{tmp_path}/mine_of_test.py:load"
    found = torchstone.benchmark(
        "mine", family="custom", device="cpu", batch_size=[4, 8], axes={"feed": "loader"}, options={"hidden": 5},
        distributed_config={"world_size": 1}, procedure=SHORT,
    )  # fmt: skip
    assert capsys.readouterr().out == ""
    assert [case.configuration["batch_size"] for case in found.cases] == [4, 8]
    workload = found.cases[0].workload
    assert (workload.task, workload.family, workload.data) == ("train", "custom", "example")
    assert {t.outcome.status for case in found.cases for t in case.trials} == {"ok"}
    rows = found.rows()
    assert [row["batch_size"] for row in rows] == [4, 8]
    assert rows[0]["fixed_argument_hidden"] == 5
    assert rows[0]["epoch_time_s"] is not None, "its data is a data set"
    assert found.summary.name == "mine"
    assert len(found.frame()) == 2
    assert found.document.is_file()
    assert found.table.is_file()
    said = [f.message for f in found.summary.findings if f.check == "own_loader"]
    assert said == [f"the DataLoader of {known.spec} has batch_size=16, num_workers=0: not measured"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"model": "builtin:cn"}, "Did you mean 'cnn'"),
        ({"model": "builtin:mlp", "task": "trian"}, "Did you mean 'train'"),
        ({"model": "builtin:mlp", "device": ABSENT}, f"device {ABSENT} not found: "),
        ({"model": lambda: None}, "a lambda has no name to import"),
        ({"model": "builtin:mlp", "family": "custom"}, "mlp is of family vision, not custom"),
        ({"model": "builtin:mlp", "device": "cpu", "distributed_config": {"world_size": 2, "backend": "nccl"}}, "nccl"),
        ({"model": "builtin:mlp", "batch_size": 0}, "0 is too small"),
        ({"model": "builtin:mlp", "axes": {"batchsize": 1}}, "Did you mean 'batch_size'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_benchmark_says_so_and_writes_nothing(outputs, words, said):
    with pytest.raises(torchstone.UsageError, match=said):
        torchstone.benchmark(**words)
    assert not list(outputs.rglob("*.jsonl"))


@pytest.mark.parametrize("text", ["{call}\ndef load(): ...\n", "def load():\n    {call}\n"], ids=["import", "call"])
def test_a_benchmark_that_its_own_loader_would_start_again_is_refused(tmp_path, text):
    """A script without `if __name__ == "__main__":` would start itself in each of its trials, for ever."""
    call = "torchstone.benchmark('builtin:mlp')"
    (tmp_path / "script.py").write_text("import torchstone\n" + text.format(call=call))
    workload = Workload(Task.TRAIN, f"py:{tmp_path}/script.py:load", "example", "sample")
    with pytest.raises(torchstone.UsageError, match="put the call under if __name__ == '__main__':"):
        registry.load("models", "py").load(f"{tmp_path}/script.py:load", workload, {})


def test_names_of_models_are_checked():
    for name in ("", "a:b", " a"):
        with pytest.raises(torchstone.UsageError, match="is not a valid name"):
            torchstone.register_model(name, len)


def test_a_batch_without_tensors_is_refused(outputs):
    with pytest.raises(torchstone.UsageError, match="tensor"):
        torchstone.measure(nn.Linear(6, 3), ["words"], **QUICK)
    assert not outputs.exists()


def test_what_the_module_raises_goes_on_and_nothing_is_written(outputs):
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        torchstone.measure(nn.Linear(6, 3), torch.randn(5, 7), **QUICK)
    assert not outputs.exists()


def test_a_summary_prints_as_a_few_lines():
    text = str(torchstone.measure(nn.Linear(6, 3), torch.randn(5, 6), **{**QUICK, "trials": 4}))
    assert "infer module:Linear, batch 5, on " in text
    assert "4 of 4 trials" in text
    line = next(line for line in text.splitlines() if line.startswith("  throughput"))
    assert "items/s" in line
    assert "[" in line or "differ too much for an interval" in line, "with its interval, or why it has none"
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


def trial_in(window):
    """The trial of a window's record."""
    lines = [json.loads(line) for line in Path(window.summary.record).read_text().splitlines()]
    (trial,) = [line for line in lines if line["record"] == "trial"]
    return trial


def recorded(window):
    """The steady steps of a window's record, and those of each phase."""
    steady = [m for m in trial_in(window)["measurements"] if m["stage"] == "steady"]
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
    with pytest.raises(torchstone.UsageError, match="no step was measured"), torchstone.window("w") as window:
        list(zip(window.batches([torch.zeros(2)] * 3), window.batches([torch.zeros(2)] * 3), strict=True))
    with pytest.raises(torchstone.UsageError, match="no step was measured"), torchstone.window("w") as window:
        list(window.batches([]))
    with pytest.raises(torchstone.UsageError, match="infer, load, loadgen, train"):
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


def test_every_epoch_is_measured_and_what_lies_between_is_in_no_step():
    with torchstone.window("w", warmup=1) as window:
        for epoch in range(3):
            for number, _ in enumerate(window.batches([torch.zeros(2, 3)] * 4)):
                if epoch == 1 and number == 2:
                    break  # this turn is not finished
            time.sleep(0.05)  # an evaluation
    case = only(window.summary)
    assert case.estimates["steps"].value == 4 + 2 + 4 - 1
    assert case.estimates["total_items"].value == 9 * 2
    assert case.estimates["step_time_max"].value < 0.05


def test_a_pause_is_in_no_step_and_what_it_measures_is_not_counted():
    with torchstone.window("w", warmup=1) as window:

        @window.pause()
        def evaluate():
            for _ in window.batches([torch.zeros(7)] * 5):
                with window.phase("forward"), window.pause():
                    time.sleep(0.01)
                window.step(items=7)

        for number, _ in enumerate(window.batches([torch.zeros(2)] * 6)):
            with window.phase("forward"):
                if number % 3 == 1:
                    evaluate()
    case = only(window.summary)
    assert case.estimates["steps"].value == 5
    assert case.estimates["total_items"].value == 5 * 2
    assert case.estimates["step_time_max"].value < 0.05
    trial = trial_in(window)
    spans = [m["values"] for m in trial["measurements"] if m["metric"] == "window_span_s"]
    assert len(spans) == 2, "so that the energy of the pauses is not counted either"
    assert sum(end - begin for begin, end in spans) < 0.05
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_library_s_loop_says_where_its_steps_end():
    with torchstone.window("w", warmup=1) as window:
        for _ in range(5):
            time.sleep(0.002)
            window.step(items=3)
    case = only(window.summary)
    assert case.estimates["steps"].value == 4
    assert case.estimates["total_items"].value == 12
    assert case.estimates["step_time_min"].value >= 0.002
    assert "data_wait_s" not in case.estimates, "nobody saw it"
    assert set(window.phases_s) == {"rest"}


class Graphs:
    """A batch of graphs as PyTorch Geometric makes it: an object of tensors with different first dimensions."""

    def __init__(self, graphs=32, nodes=960):
        self.x, self.edge_index = torch.zeros(nodes, 4), torch.zeros(2, 3000)
        self.y = torch.zeros(graphs)
        self.num_graphs = graphs


def test_items_that_nobody_knows_are_asked_for_and_not_guessed(capsys):
    with torchstone.window("w", warmup=1) as window:
        for _ in window.batches([Graphs()] * 4):
            pass
    case = only(window.summary)
    assert "throughput" not in case.estimates
    assert case.estimates["steps"].value == 3
    assert "batch_size" not in case.configuration
    assert "items unknown" in str(window)
    assert "window.step(items=" in str(window)
    assert main(["show", "latest", "--full"]) == 0
    assert "window.step(items=" in " ".join(capsys.readouterr().out.split())
    with torchstone.window("w", warmup=1) as window:
        for graphs in window.batches([Graphs()] * 4):
            window.step(items=graphs.num_graphs)
    assert only(window.summary).estimates["total_items"].value == 3 * 32
    assert "unknown" not in str(window)


def test_a_window_s_advice_fits_a_loop(capsys):
    with torchstone.window("w", warmup=1) as window:
        list(window.batches([torch.zeros(2)] * 3))
    advice = {f.check: f.advice for f in only(window.summary).findings}
    assert advice["few_samples"] == "measure at least 20 steps after warm-up"
    assert advice["few_trials"].startswith("run the script 3 times: `torchstone history latest`")
    assert main(["show", "latest", "--full"]) == 0
    assert "1 trial a case, all steps of a loop, inline" in capsys.readouterr().out


def test_names_of_documents_that_people_come_from_say_what_they_are_called_here():
    with pytest.raises(ImportError, match=r"PerformanceDiagnostics is torchstone\.Diagnostics now"):
        from torchstone import PerformanceDiagnostics  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'Anything'"):
        from torchstone import Anything  # noqa: F401
    found: Any = torchstone.Diagnostics(nn.Linear(2, 2))
    package: Any = torchstone
    with pytest.raises(AttributeError, match=r"it is run\(loader, batch_sizes, iterations, devices\) now"):
        found.run_diagnostics()
    with pytest.raises(AttributeError, match=r"it is frame\(\) now"):
        found.get_results()
    for call, said in (
        (lambda: found.run([], num_iterations=5), "num_iterations is iterations now"),
        (lambda: found.run(dataloader=[]), "dataloader is loader now"),
        (lambda: package.run_kaggle_analysis(None, dataloader=[]), "dataloader is train_loader now"),
        (lambda: package.benchmark(model_name="gpt2", hardware_type="cuda"),
         "model_name is model, hardware_type is device now"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=said):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'anything'"):
        found.run([], anything=1)
    with pytest.raises(ImportError, match=r"register_custom_model is torchstone\.register_model now"):
        from torchstone import register_custom_model  # noqa: F401
    assert not hasattr(found, "anything")
    assert copy.copy(found) is not found


def started(*words, **settings):
    answer = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=False, **settings
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.long
def test_the_examples_run(tmp_path):
    assert "items/s" in started(str(EXAMPLES / "own_loop.py"), cwd=tmp_path)
    words = ["--task", "train", "--model", f"py:{EXAMPLES}/my_model.py:load", "--trials", "1", "--iterations", "3"]
    assert "throughput" in started("-m", "torchstone", "run", *words, "--strict")
    words = ["--task", "train", "--model", f"py:{EXAMPLES}/own_data.py:load", "--option", "hidden=16"]
    words += ["--axis", "batch_size=32", "--trials", "1", "--iterations", "3"]
    assert "throughput" in started("-m", "torchstone", "run", *words, "--strict")


@pytest.mark.long
def test_the_notebook_runs_without_a_file_of_its_own(tmp_path, outputs):
    """As in a notebook, nothing of it can be imported: the interpreter reads it from a pipe."""
    pytest.importorskip("vl_convert")
    text = (EXAMPLES / "diagnostics.py").read_text()
    said = started("-", cwd=tmp_path, input=text, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert "# Diagnosis of mlp" in said
    assert "Which is fastest is not known" in said, "of one trial each"
    assert {path.name for path in outputs.rglob("diagnostics/*/*")} == {
        "throughput_vs_batch_size.png", "time_breakdown.png", "memory_usage.png", "performance_report.md",
    }  # fmt: skip


def test_page_locked_memory_on_a_cpu_is_left_out_and_one_finding_says_so(tmp_path):
    data = TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,)))
    how: Any = {"task": "train", "loss": nn.CrossEntropyLoss(), "device": "cpu", "output_dir": tmp_path, **QUICK}
    run = torchstone.measure(nn.Linear(6, 3), data, pin_memory=True, **how)
    assert only(run).configuration["pin_memory"] is False
    assert [f.severity for f in run.findings if f.check == "setting_without_effect"] == ["info"]
    plain = torchstone.measure(nn.Linear(6, 3), data, **how)
    assert "setting_without_effect" not in {f.check for f in plain.findings}

"""Callbacks of frameworks: the record of a training that ran in their own loop, which is left as it was."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterating

from torchstone.api.hooked import HookedTraining
from torchstone.core.errors import UsageError
from torchstone.core.schema.metric import BACKWARD, DATA, FORWARD, OPTIMIZER, REST
from torchstone.storage.query import read_run

ROWS, STEPS = 8, 90
QUICK: Any = {"warmup": 4}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x, labels=None):
        logits = self.layers(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SimpleNamespace(loss=loss, logits=logits) if loss is None else {"loss": loss, "logits": logits}


def data():
    drawn = torch.Generator().manual_seed(0)
    return [{"x": torch.randn(16, generator=drawn), "labels": torch.tensor(n % 4)} for n in range(64)]


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """Every training leaves torch as it was; a step lasts long enough for its phases to be seen."""
    monkeypatch.setattr("torchstone.api.hooked._WARMUP_S", 0.0)
    before = switches()
    yield
    assert switches() == before


def switches():
    from torch.optim import optimizer

    names = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
    return (
        torch.autograd.backward,
        torch.autograd.grad,
        torch.amp.GradScaler.step,
        Iterating.__init__,
        Iterating.__next__,
        Iterating._next_index,
        nn.Module._replicate_for_data_parallel,
        *(tuple(getattr(optimizer, name)) for name in names),
    )


def checked(training, items, accumulated=1):
    """The Case of a training: items and throughput agree with its steps, and phases sum to them."""
    (case,) = training.summary.cases
    assert case.workload.is_loop
    assert len(case.trials) >= 3
    figures = case.estimates
    assert case.configuration["batch_size"] == items
    assert figures["throughput"].low is not None
    assert figures["throughput"].low <= figures["throughput"].value <= figures["throughput"].high
    for trial in read_run(Path(training.summary.record)).trials:
        steps_s = trial.values("step_time_s", window="program")
        phases_s = {m.phase: sum(m.values) for m in trial.measurements if m.metric == "phase_time_s"}
        assert phases_s.keys() == {DATA, FORWARD, BACKWARD, OPTIMIZER, REST}
        assert sum(phases_s.values()) == pytest.approx(sum(steps_s))
        # accelerate fetches a batch ahead: the last step of an epoch has one fewer, the first of the next one more
        assert abs(sum(trial.values("items", window="program")) - items * len(steps_s)) <= ROWS
    assert case.trials[0].facts.backward_passes == accumulated


def loop(steps=STEPS, training=None, evaluate=None):
    """Train by hand; return the losses."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    if training is not None:
        training.start(model)
    losses: list[float] = []
    while len(losses) < steps:
        for batch in DataLoader(data(), batch_size=ROWS):
            loss = model(**batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().item())
            if evaluate and len(losses) % evaluate == 0:
                with torch.no_grad():
                    model(batch["x"])
    if training is not None:
        training.stop()
    return losses


def test_a_loop_is_measured_and_computes_the_same_to_the_bit(outputs):
    training = HookedTraining(**QUICK)
    assert loop(training=training) == loop()
    checked(training, ROWS)


def test_steps_with_an_evaluation_are_left_out(outputs):
    training = HookedTraining(**QUICK)
    loop(training=training, evaluate=10)
    assert training.summary is not None
    (case,) = training.summary.cases
    steps = sum(trial.facts.steps is not None for trial in case.trials)
    assert steps == len(case.trials)
    assert case.estimates["total_items"].value <= ROWS * (STEPS - STEPS // 10 - 4)


def test_a_window_that_is_over_is_all_that_is_measured(outputs):
    training = HookedTraining(budget_s=1e-6, **QUICK)
    with pytest.warns(UserWarning, match="too few"):
        loop(training=training)
    assert training.summary is None
    assert str(training) == "train: not measured"


def test_a_program_that_is_measured_already_is_not_hooked_twice(outputs, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_PROGRAM", "somewhere")
    training = HookedTraining(**QUICK)
    loop(steps=12, training=training)
    assert training.summary is None


def test_a_record_that_cannot_be_written_is_a_warning(tmp_path):
    file = tmp_path / "a file"
    file.touch()
    training = HookedTraining(output_dir=file, **QUICK)
    with pytest.warns(UserWarning, match="not written"):
        loop(training=training)


def test_a_training_after_one_that_raised_is_measured(outputs):
    training = HookedTraining(**QUICK)
    training.start(Net())
    loop(training=training)
    checked(training, ROWS)


@pytest.mark.parametrize("wrong", [{"budget_s": 0.0}, {"warmup": 0}])
def test_a_wrong_request(wrong):
    with pytest.raises(UsageError):
        HookedTraining(**wrong)


def test_the_trainer_of_transformers(outputs, tmp_path):
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    transformers: Any = pytest.importorskip("transformers")
    callback = importlib.import_module("torchstone.integrations.transformers").Callback(**QUICK)
    arguments = transformers.TrainingArguments(
        str(tmp_path / "trained"),
        max_steps=STEPS,
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    transformers.Trainer(Net(), arguments, train_dataset=data(), callbacks=[callback]).train()
    checked(callback, 2 * ROWS, accumulated=2)


@pytest.mark.filterwarnings("ignore")  # of Lightning's own
def test_the_trainer_of_lightning(outputs, tmp_path):
    lightning: Any = pytest.importorskip("lightning", reason="lightning is not installed")
    callback = importlib.import_module("torchstone.integrations.lightning").Callback(**QUICK)

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _number):
            return self.net(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    trainer = lightning.Trainer(
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[callback],
        accelerator="cpu",
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Module(), DataLoader(data(), batch_size=ROWS))
    checked(callback, ROWS)


def test_a_loop_of_accelerate(outputs):
    accelerate: Any = pytest.importorskip("accelerate", reason="accelerate is not installed")
    measured = importlib.import_module("torchstone.integrations.accelerate").measured
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = Net()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters()), DataLoader(data(), batch_size=ROWS)
    )
    with measured(model, **QUICK) as training:
        for _ in range(2 * STEPS // len(loader)):
            for batch in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(model(**batch)["loss"])
                    optimizer.step()
                    optimizer.zero_grad()
    checked(training, 2 * ROWS, accumulated=2)

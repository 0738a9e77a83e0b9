"""Other people's loops: a Trainer of transformers, Lightning, PyTorch Geometric. Skipped where one is missing.

`pip install --target DIR --no-deps NAME` beside this torch, and PYTHONPATH=DIR, is enough to run them.
"""

import json
import runpy
import textwrap
from typing import Any

import pytest

import torchstone
from torchstone.cli import main

SHORT = ("--trials", "2", "--warmup", "1", "--iterations", "3", "--device", "cpu", "--quiet", "--json")

TRAINER = """
    import torch, transformers
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x=None, labels=None):
            logits = self.layer(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    def load():
        rows = [{"x": torch.randn(4), "labels": n % 3} for n in range(64)]
        args = transformers.TrainingArguments(
            "unused", per_device_train_batch_size=8, report_to=[], use_cpu=True, max_steps=12, disable_tqdm=True,
            save_strategy="no", logging_strategy="no",
        )
        return transformers.Trainer(Net(), args, train_dataset=rows)
"""
LIGHTNING = """
    import lightning, torch
    from torch import nn

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x)

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = nn.functional.cross_entropy(self(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Data(lightning.LightningDataModule):
        def setup(self, stage):
            self.rows = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))

        def train_dataloader(self):
            return torch.utils.data.DataLoader(self.rows, batch_size=8)

    def load():
        return Net(), Data()
"""
GRAPHS = """
    import torch
    from torch import nn
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = GCNConv(4, 8), nn.Linear(8, 3)

        def forward(self, data):
            return self.head(global_mean_pool(self.first(data.x, data.edge_index), data.batch))

    def graph(n):
        return Data(x=torch.randn(30, 4), edge_index=torch.randint(0, 30, (2, 90)), y=torch.tensor([n % 3]))

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch), batch.y)

    def load():
        return Net(), DataLoader([graph(n) for n in range(64)], batch_size=8), loss
"""


def measured(tmp_path, capsys, text: str, *words: str) -> list[Any]:
    (tmp_path / "mine.py").write_text(textwrap.dedent(text))
    assert main(["run", "--task", "train", "--model", f"py:{tmp_path}/mine.py:load", *SHORT, *words]) == 0
    cases: list[Any] = json.loads(capsys.readouterr().out)["cases"]
    return cases


def items(case: Any) -> float:
    value: float = case["estimates"]["total_items"]["value"] / case["estimates"]["steps"]["value"]
    return value


@pytest.mark.parametrize(
    ("text", "needs"),
    [(TRAINER, ("transformers", "accelerate")), (LIGHTNING, ("lightning",)), (GRAPHS, ("torch_geometric",))],
    ids=["trainer", "lightning", "graphs"],
)
def test_what_load_returns_is_measured_with_its_own_loader_and_with_others(tmp_path, capsys, text, needs):
    for name in needs:
        pytest.importorskip(name)
    (own,) = measured(tmp_path, capsys, text)
    assert items(own) == 8
    cases = measured(tmp_path, capsys, text, "--axis", "num_workers=0,1", "--axis", "batch_size=16")
    assert {case["configuration"]["num_workers"] for case in cases} == {0, 1}
    assert {items(case) for case in cases} == {16}


def test_a_trainer_s_own_loop_is_measured_through_its_callbacks(tmp_path):
    pytest.importorskip("accelerate")
    transformers: Any = pytest.importorskip("transformers")
    (tmp_path / "mine.py").write_text(textwrap.dedent(TRAINER))
    trainer = runpy.run_path(str(tmp_path / "mine.py"))["load"]()
    with torchstone.window("trainer", warmup=2) as window:

        class Steps(transformers.TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, args, state, control, **_):
                window.step(items=args.train_batch_size * args.gradient_accumulation_steps)

        trainer.add_callback(Steps())
        trainer.train()
    assert window.summary is not None
    (case,) = window.summary.cases
    assert case.estimates["steps"].value == 10
    assert case.estimates["total_items"].value == 80


@pytest.mark.filterwarnings("ignore")  # of its advice: srun, workers
def test_lightning_s_own_loop_is_measured_over_its_epochs(tmp_path):
    lightning: Any = pytest.importorskip("lightning")
    (tmp_path / "mine.py").write_text(textwrap.dedent(LIGHTNING))
    net, data = runpy.run_path(str(tmp_path / "mine.py"))["load"]()
    with torchstone.window("lightning", warmup=2) as window:

        class Steps(lightning.Callback):  # type: ignore[misc]
            def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
                window.step(items=len(batch[0]))

        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        where = {"accelerator": "cpu", "default_root_dir": tmp_path, "enable_model_summary": False}
        lightning.Trainer(max_epochs=3, callbacks=[Steps()], **quiet, **where).fit(net, data)
    assert window.summary is not None
    (case,) = window.summary.cases
    assert case.estimates["steps"].value == 3 * 8 - 2

"""Scripts as people write them, and one trial of such a program."""

import sys

import pytest

from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.program.trial import ProgramLauncher

HEAD = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
data = TensorDataset(torch.randn(640, 32))
def loss(x): return model(x).pow(2).mean()
"""
OPTIMIZER = "optimizer = torch.optim.AdamW(model.parameters())\n"
STEP = "loss(x).backward(); optimizer.step(); optimizer.zero_grad()\n"
LOOP = f"{OPTIMIZER}while True:\n  for (x,) in DataLoader(data, batch_size=20):\n    {STEP}"


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Write a script and take one trial of it."""
    monkeypatch.chdir(tmp_path)
    launcher = ProgramLauncher()

    def take(script, *words, head=HEAD, python=sys.executable, timeout_s=60.0, fixed=None, configuration=None, **how):
        (tmp_path / "script.py").write_text(head + script)
        command = " ".join([python, "script.py", *words])
        case = Case(
            Workload(Task.TRAIN, f"program:{command}", "own", "sample", None, fixed or {}), configuration or {},
            Placement("cpu"),
        )  # fmt: skip
        procedure = Procedure(
            isolation="program", warmup_budget_s=0.1, telemetry_period_s=0.0, timeout_s=timeout_s,
            **{"iterations": 20, **how},
        )  # fmt: skip
        launcher.open((), "default")
        return TrialDrive(TrialRequest(case, procedure, 0), None, Silent()).run(launcher, 0)

    return take

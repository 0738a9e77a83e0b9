"""Why is my training as fast as it is? A notebook as a script: each # %% is a cell, python examples/diagnostics.py.

Nothing here has to be importable: model, data and loss may be defined in a cell. Pictures need 'torchstone[charts]'.
"""

# %% a model and a loader, as they are in your notebook
from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchstone

model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

# %% steps of training at several batch sizes; a device that is not here is skipped, and says why
diagnostics = torchstone.Diagnostics(model, nn.functional.cross_entropy, optimizer, name="mlp")
diagnostics.run(loader, batch_sizes=[8, 32, 128, 512], iterations=20, devices=["cpu", "cuda"])
print(diagnostics.frame())

# %% the pictures: samples/s, where a step's time goes, memory
for path in (
    diagnostics.plot_throughput_vs_batch_size(),
    diagnostics.plot_time_breakdown(),
    diagnostics.plot_memory_usage(),
):
    print(path)

# %% what limits, what to change, what to doubt: performance_report.md
print(diagnostics.report())

# %% what the accelerators do meanwhile; without one it says what was looked for
print(torchstone.analyze_gpu_utilization(lambda: diagnostics.run(loader, [64], iterations=20)))

# All of it in one call: torchstone.run_kaggle_analysis(model, loader, [8, 32, 128], loss_fn=...)

"""Sixteen threads, on a machine that has fewer cores."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(16)
x, y = torch.randn(128, 256), torch.randint(0, 10, (128,))
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10000000):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

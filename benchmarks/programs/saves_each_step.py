"""A checkpoint is written in every step."""

import os
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
path = os.path.join(tempfile.mkdtemp(), "last.pt")
x, y = torch.randn(32, 256), torch.randint(0, 10, (32,))
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10000000):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

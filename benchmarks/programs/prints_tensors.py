"""Weights are printed in every step, to see whether they move."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
rows, labels = torch.randn(6400, 64), torch.randint(0, 10, (6400,))
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10000):
    for x, y in zip(rows.split(64), labels.split(64)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss, "weights", model[0].weight)

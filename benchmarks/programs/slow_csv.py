"""A table is read again from its CSV file in every epoch."""

import csv
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
path = os.path.join(tempfile.mkdtemp(), "rows.csv")
with open(path, "w", newline="") as file:
    csv.writer(file).writerows(torch.randn(2000, 33).tolist())
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10000):
    with open(path, newline="") as file:
        table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])
    for rows in table.split(500):
        loss = (model(rows[:, :32]) - rows[:, 32:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

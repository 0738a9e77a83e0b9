"""A running average over time, in a loop of Python."""

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.head = nn.Linear(4, 32), nn.Linear(32, 10)

    def forward(self, x):
        steps = self.read(x)
        state, total = torch.zeros_like(steps[:, 0]), 0.0
        for t in range(steps.shape[1]):
            state = 0.9 * state + 0.1 * steps[:, t]
            total = total + state
        return self.head(total / steps.shape[1])


torch.manual_seed(0)
torch.set_num_threads(1)
rows, labels = torch.randn(640, 128, 4), torch.randint(0, 10, (640,))
model = Recurrent()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(100000):
    for x, y in zip(rows.split(32), labels.split(32)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

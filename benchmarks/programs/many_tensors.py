"""An optimizer that updates 2,000 small tensors one after another."""

import torch
from torch import nn


class Scattered(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(0.1 * torch.randn(64)) for _ in range(2000))

    def forward(self, x):
        return (x @ torch.stack(tuple(self.parts)).T)[:, :10] / 8


torch.manual_seed(0)
torch.set_num_threads(1)
x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
model = Scattered()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for _ in range(10000000):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

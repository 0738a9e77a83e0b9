"""Each item waits for a disk that is far away."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Far(Dataset):
    def __init__(self):
        self.rows, self.labels = torch.randn(4096, 64), torch.randint(0, 10, (4096,))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.rows[index], self.labels[index]


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(1000):
    for x, y in DataLoader(Far(), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

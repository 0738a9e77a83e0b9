"""Rows are smoothed in plain Python as they are loaded."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def smoothed(row):
    for _ in range(200):
        row = [(a + b) / 2 for a, b in zip(row, row[1:] + row[:1])]
    return row


class Rows(Dataset):
    def __init__(self):
        self.rows, self.labels = torch.randn(4096, 64), torch.randint(0, 10, (4096,))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor(smoothed(self.rows[index].tolist())), self.labels[index]


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(1000):
    for x, y in DataLoader(Rows(), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

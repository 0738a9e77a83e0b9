"""Drawn circles and squares."""

import torch
from torch.utils.data import Dataset

from shapes import CLASSES

SIZE = 20


class Drawings(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = index % len(CLASSES)
        radius = 3 + index % 5
        across = torch.arange(SIZE) - SIZE // 2
        far = torch.maximum(across[:, None].abs(), across.abs()) if label else (across[:, None] ** 2 + across**2).sqrt()
        return (far <= radius).float().unsqueeze(0), label

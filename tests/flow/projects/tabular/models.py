"""One function builds every size of our network; the sizes that we use have names."""

from functools import partial

import torch
from torch import nn
from torch.utils.data import TensorDataset

COLUMNS, CLASSES = 12, 4


def build(hidden, depth=1, dropout=0.0):
    layers = [nn.Linear(COLUMNS, hidden), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout)]
    model = nn.Sequential(*layers, nn.Linear(hidden, CLASSES))
    rows = torch.randn(256, COLUMNS)
    table = TensorDataset(rows, rows[:, :CLASSES].argmax(1))
    return model, table, nn.CrossEntropyLoss()


small = partial(build, hidden=16)
load = partial(build, hidden=48, depth=3, dropout=0.1)

"""A network that keeps statistics of what it has seen, and learns its input's width from the first batch."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

FEATURES = 20


class Normalised(nn.Module):
    """Centres its input by a running mean; counts its calls; the first layer is made when the width is known."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.history = []
        self.inner = nn.LazyLinear(32)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
                self.calls += 1
            self.history.append(len(x))
        return self.head(torch.relu(self.inner(x - self.mean)))


def load():
    torch.manual_seed(0)
    classes = torch.randint(0, 3, (96,))
    features = torch.randn(96, FEATURES) + classes.unsqueeze(1)
    return Normalised(), TensorDataset(features, classes), nn.CrossEntropyLoss()

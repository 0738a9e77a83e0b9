"""Find the bright spot of an image: a heat map as output, a loss of our own on (output, target)."""

import torch
from torch import nn

SIZE = 24


class SpotFinder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2))
        nn.init.zeros_(self.body[-1].weight)  # starts by saying "one half" everywhere
        nn.init.zeros_(self.body[-1].bias)

    def forward(self, image):
        return torch.sigmoid(self.body(image))


def spot_loss(output, target):
    """Squared error in which the spot counts as much as all the rest."""
    error = (output - target) ** 2
    inside = (error * target).sum() / target.sum()
    outside = (error * (1 - target)).sum() / (1 - target).sum()
    return 0.5 * (inside + outside)


def make_batch(count):
    images = 0.1 * torch.rand(count, 1, SIZE, SIZE)
    targets = torch.zeros(count, 1, SIZE, SIZE)
    for n in range(count):
        row, column = torch.randint(2, SIZE - 2, (2,)).tolist()
        targets[n, 0, row - 1 : row + 2, column - 1 : column + 2] = 1
    return images + targets, targets


def load():
    return SpotFinder(), make_batch(16), spot_loss, lambda params: torch.optim.Adam(params, lr=1e-2)

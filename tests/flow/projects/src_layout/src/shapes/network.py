"""The network."""

from torch import nn

from . import CLASSES


class ShapeNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, width, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.classify = nn.LazyLinear(len(CLASSES))

    def forward(self, drawing):
        return self.classify(self.features(drawing))

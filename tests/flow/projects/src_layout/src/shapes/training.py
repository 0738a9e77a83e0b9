"""What we train, and with what."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from .data import Drawings
from .network import ShapeNet

BATCH = 10


def load():
    model = ShapeNet()
    model(torch.zeros(1, 1, 20, 20))  # the lazy layer learns its width
    loader = DataLoader(Drawings(200), batch_size=BATCH, shuffle=True)
    return model, loader, nn.CrossEntropyLoss(), lambda params: torch.optim.AdamW(params, lr=3e-3)


def train(epochs=3):
    model, loader, criterion, make_optimizer = load()
    optimizer = make_optimizer(model.parameters())
    for _ in range(epochs):
        for drawings, labels in loader:
            loss = criterion(model(drawings), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model

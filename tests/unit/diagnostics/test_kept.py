"""A user's model and optimizer come out of a diagnosis as they went in, even where it raised."""

import copy

import pytest
import torch
from torch import nn

from torchstone.diagnostics.kept import kept


def test_everything_is_put_back():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    parameters = list(model.parameters())
    with pytest.raises(ZeroDivisionError), kept(model, optimizer):
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
        optimizer.state.clear()
        raise ZeroDivisionError
    assert not model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    for now, before in zip(model.parameters(), gradients, strict=True):
        assert now.grad is not None
        assert torch.equal(now.grad, before)
    assert all(now is before for now, before in zip(model.parameters(), parameters, strict=True))
    assert str(optimizer.state_dict()) == str(state)


def test_without_an_optimizer_or_gradients_there_is_nothing_more_to_put_back():
    model = nn.Linear(2, 2)
    with kept(model, torch.optim.SGD):
        model(torch.zeros(1, 2)).sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())

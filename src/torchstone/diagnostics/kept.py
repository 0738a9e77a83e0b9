"""Keeps a user's model and optimizer as they were: measuring trains them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept(model: Any, optimizer: Any) -> Iterator[None]:
    """Put weights, buffers, gradients, mode, device and the optimizer's state back at the end, whatever happens.

    The copy lies in host memory. `optimizer` may be None, or what makes one: then there is nothing to put back.
    """
    device = next((parameter.device for parameter in model.parameters()), None)
    weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
    gradients = [None if p.grad is None else p.grad.detach().to("cpu", copy=True) for p in model.parameters()]
    training = model.training
    state: Mapping[str, Any] | None = None
    if hasattr(optimizer, "state_dict") and not isinstance(optimizer, type):
        state = copy.deepcopy(optimizer.state_dict())
    try:
        yield
    finally:
        model.zero_grad(set_to_none=True)
        if device is not None:
            model.to(device)
        model.load_state_dict(weights)
        model.train(training)
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.to(parameter.device)
        if state is not None:
            optimizer.load_state_dict(state)

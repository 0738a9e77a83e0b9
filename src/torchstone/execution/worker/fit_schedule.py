"""The learning-rate schedule of a training: warm-up from 0, then constant or decay to 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torchstone.core.schema.fit import Fit

# What is left of the learning rate at a share of the way from the end of its rise to the end of the training.
_FALLS: Mapping[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 * (1.0 + math.cos(math.pi * share)),
}


def schedule_of(optimizer: Any, fit: Fit, steps: int) -> Any:
    """Return torch's scheduler, to be stepped after every optimizer step; `steps`: of the whole training."""
    from torch.optim.lr_scheduler import LambdaLR

    return LambdaLR(optimizer, lambda step: factor(fit, step, steps))


def factor(fit: Fit, step: int, steps: int) -> float:
    """Return by what the learning rate is multiplied at a step, counted from 0."""
    rise = round(fit.warmup_share * steps)
    if step < rise:
        return (step + 1) / rise
    return _FALLS[fit.schedule](min(1.0, (step - rise) / max(1, steps - rise)))

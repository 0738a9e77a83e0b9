"""The loss that a training has where none was named: cross-entropy, if its targets are the numbers of classes."""

from __future__ import annotations

from typing import Any

from torchstone.core.errors import UsageError


def cross_entropy(output: Any, target: Any) -> Any:
    """Return the mean cross-entropy of logits (items, classes, …) and class numbers. Raises UsageError for others.

    Any other loss would be a guess: targets of real numbers have many.
    """
    from torch.nn import functional

    logits = getattr(output, "logits", output)  # transformers' models answer with an object
    kind = str(target.dtype).removeprefix("torch.")
    if kind != "int64" or getattr(logits, "dim", int)() < 2:
        why = "cross-entropy is the default only for class scores with integer class targets"
        raise UsageError(f"Diagnostics: pass loss_fn=…: {why}; these are {kind} of shape {tuple(target.shape)}")
    return functional.cross_entropy(logits, target)

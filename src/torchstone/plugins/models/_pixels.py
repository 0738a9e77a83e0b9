"""How an image classifier of another library is called. Imported inside `load` only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.nn.functional import cross_entropy

from torchstone.core.errors import UsageError
from torchstone.plugins.models._weights_file import instead


def forward(module: Any, tensors: Mapping[str, Any]) -> Any:
    """Return logits, items × classes; those of the main head, where a network in training has more of them."""
    output = module(tensors["pixel_values"])
    return getattr(output, "logits", output)


def loss(module: Any, tensors: Mapping[str, Any]) -> Any:
    """Return the mean cross-entropy over the items. Raises UsageError if the data has no labels."""
    if "labels" not in tensors:
        raise UsageError("task train: the data has no labels")
    return cross_entropy(forward(module, tensors), tensors["labels"])


def channels_of(module: Any) -> int:
    """Return how many channels the first convolution takes; three where there is none."""
    first = next((p for p in module.parameters() if p.dim() == 4), None)
    return int(first.shape[1]) if first is not None else 3


@contextmanager
def download_errors(model: str, *, pretrained: bool) -> Iterator[None]:
    """Turn what downloading weights raises, by many libraries in many ways, into one line; let all else pass."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, LookupError) as error:
        if not pretrained:
            raise
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"{model}: weights=pretrained: {said[:200]}; {instead(model)}") from error

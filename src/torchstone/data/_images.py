"""What all images go through on their way into a model: resized to a square, channels as asked, from -1 to 1."""

from __future__ import annotations

from typing import Any

from torch.nn.functional import interpolate


def fitted(pixels: Any, channels: int, side: int) -> Any:
    """Return channels × side × side from -1 to 1, of pixels (1 or `channels`) × height × width from 0 to 1."""
    square = interpolate(pixels.unsqueeze(0), size=(side, side), mode="bilinear", align_corners=False, antialias=True)
    return (square.squeeze(0).expand(channels, -1, -1) - 0.5) / 0.5

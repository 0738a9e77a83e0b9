"""The networks of `builtin:`, each with what calls it and what it learns from. Imported inside `load` only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.models.builtin.names import DENOISER_SIZES, GESTURE_SIZES, LONGEST, POSITIONS, TEXT_SIZES

Work = Callable[[Any, Mapping[str, Any]], Any]
_SMALL = 0.1  # size of the embeddings of a TextNet at first
_NOISE = 0.1  # standard deviation of what is added to a sequence in training, and to be taken off again


class BuiltNet(msgspec.Struct):
    """A network, what calls it, and its loss."""

    module: Any
    forward: Work
    loss: Work


def build_network(name: str, classes: int, configuration: Mapping[str, Scalar]) -> BuiltNet:
    """Build the network of that name; `classes` is of no matter to a denoiser."""
    if name in GESTURE_SIZES:
        hidden, layers, _ = GESTURE_SIZES[name]
        return _classifier(GestureNet(hidden, layers, classes), "features")
    if name in DENOISER_SIZES:
        depth, hidden, _ = DENOISER_SIZES[name]
        length = int(configuration.get("sequence_length") or POSITIONS)
        return BuiltNet(Denoiser(depth, hidden, length), lambda net, t: net(t["features"]), _denoising)
    if name in TEXT_SIZES:
        depth, hidden, vocabulary, dropout = TEXT_SIZES[name]
        module = TextNet(vocabulary, hidden, depth, LONGEST, classes, dropout)
        return _classifier(module, "input_ids", "attention_mask")
    side = int(configuration.get("image_size") or 32)
    convolves = name == "cnn"
    return _classifier(SmallConvNet(classes) if convolves else Perceptron(side, classes), "pixel_values")


def _classifier(module: Any, *takes: str) -> BuiltNet:
    def forward(network: Any, tensors: Mapping[str, Any]) -> Any:
        return network(*[tensors[name] for name in takes])

    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return cross_entropy(forward(network, tensors), tensors["labels"])

    return BuiltNet(module, forward, loss)


def _denoising(network: Any, tensors: Mapping[str, Any]) -> Any:
    """Mean squared error against the targets; without them, noise is added to the sequence, which is the target."""
    features = tensors["features"]
    if "targets" in tensors:
        return mse_loss(network(features), tensors["targets"])
    return mse_loss(network(features + _NOISE * torch.randn_like(features)), features)


class SmallConvNet(nn.Module):
    """Three convolutions and two layers over images of any size. Logits of the classes."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, classes))

    def forward(self, images: torch.Tensor) -> Any:
        """Images × 3 × side × side → images × classes."""
        return self.head(self.features(images))


class Perceptron(nn.Module):
    """Three layers over the pixels of an image of one size. Logits of the classes."""

    def __init__(self, side: int, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(3 * side * side, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, classes),
        )

    def forward(self, images: torch.Tensor) -> Any:
        """Images × 3 × side × side → images × classes."""
        return self.layers(images)


class GestureNet(nn.Module):
    """An LSTM over the frames of a skeleton (25 joints × 3 coordinates); the last frame decides among the gestures."""

    def __init__(self, hidden: int, layers: int, classes: int = 9) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(75, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, frames: torch.Tensor) -> Any:
        """Sequences × frames × 75 → sequences × classes."""
        return self.head(self.recurrent(frames)[0][:, -1])


class TextNet(nn.Module):
    """A small transformer encoder over token ids, to be trained from nothing; the mean over the tokens decides."""

    def __init__(self, vocabulary: int, hidden: int, depth: int, longest: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, hidden, padding_idx=0)
        # Of torch's own size (1), embeddings of seldom words would stay noise for epochs: a few thousand sentences
        # do not move them far.
        nn.init.normal_(self.words.weight, std=_SMALL)
        self.positions: torch.Tensor
        self.register_buffer("positions", _SMALL * _waves(longest, hidden), persistent=False)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            hidden, 4, 2 * hidden, dropout=dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(hidden, classes)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        """Sentences × tokens, twice → sentences × classes."""
        told = self.dropout(self.words(ids) + self.positions[: ids.shape[1]])
        told = self.encoder(told, src_key_padding_mask=mask == 0)
        kept = mask.unsqueeze(2).to(told.dtype)
        return self.head(self.dropout((told * kept).sum(1) / kept.sum(1).clamp(min=1.0)))


class Denoiser(nn.Module):
    """A transformer encoder over every position of a sequence of two values: noisy in, clean out."""

    def __init__(self, depth: int, hidden: int, length: int) -> None:
        super().__init__()
        self.lift = nn.Linear(2, hidden)
        self.register_buffer("positions", _waves(length, hidden), persistent=False)  # weights fit any length
        layer = nn.TransformerEncoderLayer(
            hidden, max(1, hidden // 16), 4 * hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(hidden, 2)

    def forward(self, noisy: torch.Tensor) -> Any:
        """Sequences × positions × 2 → the same shape."""
        return self.head(self.encoder(self.lift(noisy) + self.positions))


def _waves(length: int, hidden: int) -> torch.Tensor:
    """Positions × hidden: sines and cosines of falling frequency (Vaswani et al., NeurIPS 2017, §3.5)."""
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, hidden, 2) * (-math.log(1e4) / hidden))
    return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1)

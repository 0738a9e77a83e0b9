"""`synthetic`: made to measure for any model. Text has the lengths of real sentences; `synthetic:full` has no padding.

An item depends on the seed and its index alone, so every process and every trial sees the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import DataCard, InputSpec, View
from torchstone.plugins.protocols import DataSource, Samples

# Lengths in tokens, [CLS] and [SEP] with them, of the 6,920 sentences of SST-2's training set under a WordPiece
# vocabulary of 30,522 trained on them: mean and standard deviation of the logarithm. Mean 21.1, median 20, 3 to 58.
_LOG_MEAN, _LOG_DEVIATION = 2.925, 0.527
_SHORTEST = 3
_ITEMS = 65_536
_FIRST_WORD = 5  # ids below are padding and other special tokens in most vocabularies
_VOCABULARY, _WIDTH, _CLASSES = 30_522, 64, 2  # where the model does not say
_LOUDNESS = 0.1  # standard deviation of a waveform, whose values are between -1 and 1
_WAYS = ("full",)
_KINDS = ("text", "image", "image_text", "audio", "features")


class SyntheticItems:
    """Items made when asked for: `input_ids` and `attention_mask`, `pixel_values`, `waveform` or `features`.

    `labels` too, but for models that take the tokens, or the pairs of a batch, for labels.
    """

    def __init__(self, spec: InputSpec, configuration: Mapping[str, Scalar], seed: int, *, full: bool) -> None:
        self._spec = spec
        self._length = int(configuration.get("sequence_length") or 128)
        self._side = int(configuration.get("image_size") or 224)
        self._samples = round(float(configuration.get("audio_s") or 1.0) * spec.rate_hz)
        self._seed = seed
        self._full = full

    def __len__(self) -> int:
        return _ITEMS

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        if not 0 <= index < _ITEMS:
            raise IndexError(index)
        number = self._seed * _ITEMS + index
        generator = torch.Generator().manual_seed(number)
        spec = self._spec
        item: dict[str, Any] = {}
        if spec.kind in ("text", "image_text"):
            item = self._text(torch, generator, number)
        if spec.kind in ("image", "image_text"):
            item["pixel_values"] = torch.randn(spec.channels, self._side, self._side, generator=generator)
        elif spec.kind == "audio":
            item["waveform"] = _LOUDNESS * torch.randn(self._samples, generator=generator)
        elif spec.kind == "features":
            item["features"] = torch.randn(self._length, spec.width or _WIDTH, generator=generator)
        if not spec.causal and spec.kind != "image_text":
            item["labels"] = torch.randint(spec.classes or _CLASSES, (), generator=generator)
        return item

    def _text(self, torch: Any, generator: Any, number: int) -> dict[str, Any]:
        drawn = round(random.Random(number).lognormvariate(_LOG_MEAN, _LOG_DEVIATION))
        tokens = self._length if self._full else min(self._length, max(_SHORTEST, drawn))
        vocabulary = self._spec.vocabulary or _VOCABULARY
        ids = torch.zeros(self._length, dtype=torch.int64)
        ids[:tokens] = torch.randint(min(_FIRST_WORD, vocabulary - 1), vocabulary, (tokens,), generator=generator)
        if self._spec.kind == "image_text":
            ids[tokens - 1] = vocabulary - 1  # CLIP reads a text at its end mark, the last word of its vocabulary
        mask = torch.zeros(self._length, dtype=torch.int64)
        mask[:tokens] = 1
        return {"input_ids": ids, "attention_mask": mask}


class Synthetic(DataSource):
    """Data source `synthetic`."""

    describes = "random data that fits any model; synthetic:full is text without padding"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if path and path not in _WAYS:
            raise unknown("way of data synthetic", path, _WAYS)
        return DataCard("any")

    def samples(self, path: str, view: View) -> Samples:
        if view.input.kind not in _KINDS:
            raise UsageError("data synthetic: this model has its own example batch; leave out --data")
        return SyntheticItems(view.input, view.configuration, view.seed, full=path == "full")


PLUGIN: DataSource = Synthetic()

"""`synthetic`: made to measure for any model. Text has the lengths of real sentences; `synthetic:full` has no padding.

An item depends on the seed and its index alone, so every process and every trial sees the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from torchstone.errors import UsageError, unknown
from torchstone.extend import DataSource, Samples
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import DataCard
from torchstone.terms.model import InputSpec

# Lengths in tokens, [CLS] and [SEP] with them, of the 6,920 sentences of SST-2's training set under a WordPiece
# vocabulary of 30,522 trained on them: mean and standard deviation of the logarithm. Mean 21.1, median 20, 3 to 58.
_LOG_MEAN, _LOG_DEVIATION = 2.925, 0.527
_SHORTEST = 3
_ITEMS = 65_536
_FIRST_WORD = 5  # ids below are padding and other special tokens in most vocabularies
_VOCABULARY, _WIDTH, _CLASSES = 30_522, 64, 2  # where the model does not say
_WAYS = ("full",)


class Made:
    """Items made when asked for: `input_ids` and `attention_mask`, `pixel_values` or `features`, and `labels`."""

    def __init__(self, spec: InputSpec, configuration: Mapping[str, Scalar], seed: int, *, full: bool) -> None:
        self._spec = spec
        self._length = int(configuration.get("sequence_length") or 128)
        self._side = int(configuration.get("image_size") or 224)
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
        if spec.kind == "text":
            item = self._text(torch, generator, number)
        elif spec.kind == "image":
            item = {"pixel_values": torch.randn(spec.channels, self._side, self._side, generator=generator)}
        else:
            item = {"features": torch.randn(self._length, spec.width or _WIDTH, generator=generator)}
        if not spec.causal:
            item["labels"] = torch.randint(spec.classes or _CLASSES, (), generator=generator)
        return item

    def _text(self, torch: Any, generator: Any, number: int) -> dict[str, Any]:
        drawn = round(random.Random(number).lognormvariate(_LOG_MEAN, _LOG_DEVIATION))
        tokens = self._length if self._full else min(self._length, max(_SHORTEST, drawn))
        vocabulary = self._spec.vocabulary or _VOCABULARY
        ids = torch.zeros(self._length, dtype=torch.int64)
        ids[:tokens] = torch.randint(min(_FIRST_WORD, vocabulary - 1), vocabulary, (tokens,), generator=generator)
        mask = torch.zeros(self._length, dtype=torch.int64)
        mask[:tokens] = 1
        return {"input_ids": ids, "attention_mask": mask}


class Synthetic:
    """Data source `synthetic`."""

    describes = "made to measure for any model; synthetic:full is text without padding"

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if path and path not in _WAYS:
            raise unknown("way of data synthetic", path, _WAYS)
        return DataCard("any")

    def samples(
        self, path: str, spec: InputSpec, tokenizer: Any, configuration: Mapping[str, Scalar], seed: int
    ) -> Samples:
        if spec.kind not in ("text", "image", "features"):
            raise UsageError("data synthetic: this model brings its own example batch; leave data away")
        return Made(spec, configuration, seed, full=path == "full")


PLUGIN: DataSource = Synthetic()

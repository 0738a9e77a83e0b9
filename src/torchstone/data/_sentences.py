"""Sentences as a data set, tokenized as they are read: by the model's tokenizer, or by one made for the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.data._tsv_rows import Row
from torchstone.terms.model import InputSpec

_VOCABULARY = 30_522  # BERT's, where the model does not say


class Sentences:
    """Items of `input_ids` and `attention_mask`, int64, `length` tokens each, and `labels` (not for causal models)."""

    def __init__(self, data: Sequence[Row], spec: InputSpec, tokenizer: Any, length: int) -> None:
        self._sentences = [row.sentence for row in data]
        self._labels = None if spec.causal else [row.label for row in data]
        self._tokenizer = tokenizer
        self._length = length

    def __len__(self) -> int:
        return len(self._sentences)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        ids, mask = self._encode(self._sentences[index])
        item = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
        if self._labels is not None:
            item["labels"] = torch.tensor(self._labels[index])
        return item

    def _encode(self, sentence: str) -> tuple[list[int], list[int]]:
        if callable(self._tokenizer):
            found = self._tokenizer(sentence, truncation=True, padding="max_length", max_length=self._length)
            return list(found["input_ids"]), list(found["attention_mask"])
        encoded = self._tokenizer.encode(sentence)
        return list(encoded.ids), list(encoded.attention_mask)


def tokenizer_for(data: Sequence[Row], spec: InputSpec, tokenizer: Any, length: int) -> Any:
    """Return the model's own tokenizer, or one trained on the sentences that pads and cuts to `length`."""
    return tokenizer if tokenizer is not None else _trained(data, spec, length)


def _trained(data: Sequence[Row], spec: InputSpec, length: int) -> Any:
    from torchstone.data import _word_pieces

    tokenizer = _word_pieces.train([row.sentence for row in data], spec.vocabulary or _VOCABULARY)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=length)
    return tokenizer

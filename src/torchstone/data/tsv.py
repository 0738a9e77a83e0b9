"""`tsv:PATH`: sentences with labels, tokenized as they are read by the model's tokenizer, or one made for the text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from torchstone.data._tsv_rows import Row, rows
from torchstone.errors import MissingError, UsageError
from torchstone.extend import DataCard, DataSource, InputSpec, Samples
from torchstone.terms.axis import Scalar

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


class Tsv:
    """Data source `tsv`."""

    describes = "your own sentences: tsv:PATH, a row is sentence<TAB>label, with or without a header"

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if find_spec("tokenizers") is None:
            raise MissingError("data tsv: needs tokenizers: pip install 'torchstone[models]'")
        digest = hashlib.sha256()
        items = highest = 0
        for row in rows(path, digest):
            items += 1
            highest = max(highest, row.label)
        return DataCard("text", items, highest + 1, digest.hexdigest())

    def samples(
        self, path: str, spec: InputSpec, tokenizer: Any, configuration: Mapping[str, Scalar], seed: int
    ) -> Samples:
        data = list(rows(path))
        for row in data:
            if not spec.causal and spec.classes is not None and row.label >= spec.classes:
                raise UsageError(
                    f"{path}: row {row.number}: label {row.label}, but the model has {spec.classes} classes, "
                    f"0 to {spec.classes - 1}; give it more: classes={max(r.label for r in data) + 1}"
                )
        length = int(configuration.get("sequence_length") or 128)
        return Sentences(data, spec, tokenizer if tokenizer is not None else _trained(data, spec, length), length)


def _trained(data: Sequence[Row], spec: InputSpec, length: int) -> Any:
    from torchstone.data import _word_pieces

    tokenizer = _word_pieces.train([row.sentence for row in data], spec.vocabulary or _VOCABULARY)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=length)
    return tokenizer


PLUGIN: DataSource = Tsv()

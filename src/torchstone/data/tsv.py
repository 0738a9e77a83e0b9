"""`tsv:PATH`: sentences with labels, tokenized as they are read by the model's tokenizer, or one made for the text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from torchstone.data._sentences import Sentences, tokenizer_for
from torchstone.data._tsv_rows import rows
from torchstone.errors import MissingError, UsageError
from torchstone.extend import DataSource, Samples
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import DataCard
from torchstone.terms.model import InputSpec


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
        return Sentences(data, spec, tokenizer_for(data, spec, tokenizer, length), length)


PLUGIN: DataSource = Tsv()

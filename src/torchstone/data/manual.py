"""`manual`: real English sentences that come with every Python, from its language reference; no download, no file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from torchstone.data._sentences import Sentences, tokenizer_for
from torchstone.data._tsv_rows import Row
from torchstone.errors import MissingError
from torchstone.extend import DataSource, Samples
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import DataCard
from torchstone.terms.model import InputSpec

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@cache
def _rows() -> tuple[Row, ...]:
    """Return the sentences; the label says whether one quotes code. Its paragraphs of code are left out."""
    from pydoc_data.topics import topics

    paragraphs = [p for text in topics.values() for p in text.split("\n\n") if p and not p[0].isspace()]
    sentences = [" ".join(s.split()) for p in paragraphs for s in _SENTENCE.split(p)]
    prose = dict.fromkeys(s for s in sentences if s[:1].isalpha() and s.endswith((".", "!", "?")) and " " in s)
    return tuple(Row(number, s.replace('"', ""), int('"' in s)) for number, s in enumerate(prose, 1))


class Manual:
    """Data source `manual`."""

    describes = "real text that every Python has: sentences of its language reference; label: does it quote code"

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if find_spec("tokenizers") is None:
            raise MissingError("data manual: needs tokenizers: pip install 'torchstone[models]'")
        if find_spec("pydoc_data.topics") is None:
            raise MissingError("data manual: this Python came without pydoc_data; use synthetic, or tsv:PATH")
        digest = hashlib.sha256("\n".join(row.sentence for row in _rows()).encode())
        return DataCard("text", len(_rows()), 2, digest.hexdigest())

    def samples(
        self, path: str, spec: InputSpec, tokenizer: Any, configuration: Mapping[str, Scalar], seed: int
    ) -> Samples:
        length = int(configuration.get("sequence_length") or 128)
        return Sentences(_rows(), spec, tokenizer_for(_rows(), spec, tokenizer, length), length)


PLUGIN: DataSource = Manual()

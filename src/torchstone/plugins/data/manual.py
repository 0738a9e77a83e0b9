"""`manual`: real English sentences that come with every Python, from its language reference; no download, no file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import DataCard, View
from torchstone.plugins.data._table import Item, Sentences, refuse_without_tokenizers, table_card, with_classes
from torchstone.plugins.protocols import DataSource, Samples

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@cache
def _items() -> tuple[Item, ...]:
    """Return the sentences; the label says whether one quotes code. Its paragraphs of code are left out."""
    from pydoc_data.topics import topics

    paragraphs = [p for text in topics.values() for p in text.split("\n\n") if p and not p[0].isspace()]
    sentences = [" ".join(s.split()) for p in paragraphs for s in _SENTENCE.split(p)]
    prose = dict.fromkeys(s for s in sentences if s[:1].isalpha() and s.endswith((".", "!", "?")) and " " in s)
    return tuple(Item(f"sentence {n}", s.replace('"', ""), int('"' in s)) for n, s in enumerate(prose, 1))


class Manual(DataSource):
    """Data source `manual`."""

    describes = "text included with every Python: sentences of its language reference; label: whether it quotes code"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_tokenizers("manual")
        if find_spec("pydoc_data.topics") is None:
            raise MissingError("data manual: this Python has no pydoc_data; use synthetic, or tsv:PATH")
        digest = hashlib.sha256("\n".join(item.value for item in _items()).encode())
        return table_card("text", {None: lambda: iter(_items())}, digest.hexdigest())

    def samples(self, path: str, view: View) -> Samples:
        return Sentences(with_classes({None: lambda: iter(_items())}, view), view)


PLUGIN: DataSource = Manual()

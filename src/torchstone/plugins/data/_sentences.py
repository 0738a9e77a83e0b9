"""Sentences as a data set, tokenized as they are read: by the model's tokenizer, or by one made for the text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from torchstone.core.errors import MissingError
from torchstone.core.schema.batch import View

_VOCABULARY = 30_522  # BERT's, where the model does not say
_PADDING = ("[PAD]", "<pad>", "<|padding|>")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TRAINED_ON = 20_000  # sentences; more of them change little and take long
_MOST_LETTERS = 2_000  # distinct characters that get a token of their own, the most frequent first


def refuse_without_tokenizers(scheme: str) -> None:
    """Raise MissingError if the library that makes tokens of text is not installed."""
    if find_spec("tokenizers") is None:
        raise MissingError(f"data {scheme}: needs tokenizers: pip install 'torchstone[models]'")


class Sentences:
    """Items of `input_ids` and `attention_mask`, int64, and `labels` if the sentences have them.

    Padded and cut to `sequence_length`. `tokenizer`: the view's (the model's own), or one trained on these sentences.
    """

    def __init__(self, labelled: Iterable[tuple[str, int | None]], view: View) -> None:
        rows = list(labelled)
        self._sentences = [sentence for sentence, _ in rows]
        self._labels = [label for _, label in rows]
        self._length = int(view.configuration.get("sequence_length") or 128)
        self.tokenizer = view.tokenizer
        if self.tokenizer is None:
            self.tokenizer = trained(self._sentences, view.input.vocabulary or _VOCABULARY)
        if not callable(self.tokenizer):
            self.tokenizer = _fitted(self.tokenizer, self._length)

    def __len__(self) -> int:
        return len(self._sentences)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        ids, mask = self._encode(self._sentences[index])
        item = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
        label = self._labels[index]
        if label is not None:
            item["labels"] = torch.tensor(label)
        return item

    def _encode(self, sentence: str) -> tuple[list[int], list[int]]:
        if callable(self.tokenizer):
            found = self.tokenizer(sentence, truncation=True, padding="max_length", max_length=self._length)
            return list(found["input_ids"]), list(found["attention_mask"])
        encoded = self.tokenizer.encode(sentence)
        return list(encoded.ids), list(encoded.attention_mask)


def _fitted(tokenizer: Any, length: int) -> Any:
    """Return a copy of a `tokenizers.Tokenizer` that pads and cuts to `length`: the one given may be of another."""
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.to_str())
    token = (tokenizer.padding or {}).get("pad_token")
    token = token or next((word for word in _PADDING if tokenizer.token_to_id(word) is not None), _PADDING[0])
    copy.enable_truncation(length)
    copy.enable_padding(pad_id=tokenizer.token_to_id(token) or 0, pad_token=token, length=length)
    return copy


def trained(sentences: Sequence[str], vocabulary: int) -> Any:
    """Return a WordPiece tokenizer with at most `vocabulary` tokens, the same for the same text.

    Raises ValueError if that is fewer than the special ones.
    """
    from tokenizers import models, processors, trainers

    if vocabulary <= len(_SPECIAL):
        raise ValueError(f"a vocabulary of {vocabulary} has no room beside {len(_SPECIAL)} special tokens")
    # Its thread pool does not survive the fork of a loader's processes, and says so on stderr.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = sentences[:_TRAINED_ON]
    tokenizer = _empty(models.WordPiece({}, unk_token="[UNK]"))
    room = max(0, min(_MOST_LETTERS, (vocabulary - len(_SPECIAL)) // 2))
    plain = [tokenizer.normalizer.normalize_str(sentence) for sentence in text]
    every = _letters(plain)
    letters = every[:room]
    rare = str.maketrans(dict.fromkeys(every[room:], " "))
    # The trainer numbers letters in the order of a hash map; given as special tokens, they are numbered as listed.
    first = [*_SPECIAL, *letters, *("##" + letter for letter in letters)]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=first, show_progress=False)
    tokenizer.train_from_iterator((sentence.translate(rare) for sentence in plain), trainer)
    words = {token: number for token, number in tokenizer.get_vocab().items() if number < vocabulary}
    ready = _empty(models.WordPiece(words, unk_token="[UNK]"))
    ready.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words["[CLS]"]), ("[SEP]", words["[SEP]"])]
    )
    return ready


def _empty(model: Any) -> Any:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _letters(text: Sequence[str]) -> list[str]:
    counts = Counter(letter for sentence in text for letter in sentence if not letter.isspace())
    return sorted(counts, key=lambda letter: (-counts[letter], letter))

"""A tokenizer for text when the model brings none: WordPiece, trained on the text, the same for the same text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TRAINED_ON = 20_000  # sentences; more of them change little and take long
_MOST_LETTERS = 2_000  # distinct characters that get a token of their own, the most frequent first


def train(sentences: Sequence[str], vocabulary: int) -> Tokenizer:
    """Return a tokenizer with at most `vocabulary` tokens. Raises ValueError if that is fewer than the special ones."""
    if vocabulary <= len(SPECIAL):
        raise ValueError(f"a vocabulary of {vocabulary} is too small for {len(SPECIAL)} special tokens")
    # Its thread pool does not survive the fork of a loader's processes, and says so on stderr.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = sentences[:_TRAINED_ON]
    tokenizer = _empty(models.WordPiece({}, unk_token="[UNK]"))
    room = max(0, min(_MOST_LETTERS, (vocabulary - len(SPECIAL)) // 2))
    plain = [tokenizer.normalizer.normalize_str(sentence) for sentence in text]
    every = _letters(plain)
    letters = every[:room]
    rare = str.maketrans(dict.fromkeys(every[room:], " "))
    # The trainer numbers letters in the order of a hash map; given as special tokens, they are numbered as listed.
    first = [*SPECIAL, *letters, *("##" + letter for letter in letters)]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=first, show_progress=False)
    tokenizer.train_from_iterator((sentence.translate(rare) for sentence in plain), trainer)
    words = {token: number for token, number in tokenizer.get_vocab().items() if number < vocabulary}
    ready = _empty(models.WordPiece(words, unk_token="[UNK]"))
    ready.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words["[CLS]"]), ("[SEP]", words["[SEP]"])]
    )
    return ready


def _empty(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _letters(text: Sequence[str]) -> list[str]:
    counts = Counter(letter for sentence in text for letter in sentence if not letter.isspace())
    return sorted(counts, key=lambda letter: (-counts[letter], letter))

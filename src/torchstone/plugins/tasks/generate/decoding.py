"""Greedy generation: a pass over the prompts, then a pass a token; its prompts, its clock readings, and its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

from torchstone.core.schema.batch import Batch, Unreadable
from torchstone.core.schema.model import Decoding
from torchstone.core.schema.phase import DECODE, PREFILL
from torchstone.plugins.protocols import Mark

_KEPT_TOKENS = 4096  # times between tokens, of the first generations of a window; of the others the mean
_DIGEST_BYTES = 6  # as many as a float holds exactly


def generate(
    decoding: Decoding, modules: tuple[Any, Any], tensors: Mapping[str, Any], new_tokens: int,
    deliver: Callable[[Any], None], mark: Mark,
) -> tuple[list[Any], Any]:  # fmt: skip
    """Return so many tokens for each prompt (a tensor of ids a token), the likeliest each time, and the last state.

    `modules`: what the prompts go through, and what each token does. `deliver` is called with each token as soon as it
    is chosen, before the next is asked for. No token ends a text: equal work for all is what is measured.
    """
    whole, single = modules
    logits, state = decoding.start(whole, tensors, new_tokens)
    tokens = [logits.argmax(-1)]
    deliver(tokens[0])
    mark(PREFILL)
    for _ in range(new_tokens - 1):
        token = decoding.go_on(single, tokens[-1], state).argmax(-1)
        deliver(token)
        tokens.append(token)
    if new_tokens > 1:
        mark(DECODE)
    return tokens, state


def digest(tokens: Sequence[Sequence[int]]) -> list[float]:
    """Return two numbers of 48 bits from the SHA-256 of the tokens of each item: one other token, two other numbers."""
    text = ";".join(",".join(map(str, item)) for item in tokens)
    found = hashlib.sha256(text.encode()).digest()
    return [float(int.from_bytes(found[n : n + _DIGEST_BYTES], "big")) for n in (0, _DIGEST_BYTES)]


class TokenTimes:
    """When the tokens of each generation were on the host."""

    def __init__(self) -> None:
        self._whole: list[Sequence[float]] = []
        self._ends: list[tuple[float, float, float]] = []
        self._between = 0
        self._room = _KEPT_TOKENS

    def add(self, stamps_s: Sequence[float]) -> None:
        """Add one generation: when its prompts were there, then when each of its tokens was on the host, in seconds."""
        self._ends.append((stamps_s[0], stamps_s[1], stamps_s[-1]))
        self._between = len(stamps_s) - 2
        if self._between <= self._room:
            self._room -= self._between
            self._whole.append(stamps_s)

    def raw(self) -> dict[str, list[float]]:
        """Return raw metrics in seconds, a value a generation, and a value a token of as many as are kept."""
        found = {"time_to_first_token_s": [first - asked for asked, first, _ in self._ends]}
        if self._between:
            found["time_per_output_token_s"] = [(last - first) / self._between for _, first, last in self._ends]
            steps = chain.from_iterable(pairwise(stamps_s[1:]) for stamps_s in self._whole)
            found["output_token_time_s"] = [after - before for before, after in steps]
        return {metric: values for metric, values in found.items() if values}


class Prompts:
    """A data set of text whose padding is moved before it: a text goes on from its last token."""

    def __init__(self, samples: Any) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Mapping[str, Any] | Unreadable:
        item = self._samples[index]
        if isinstance(item, Unreadable):
            return item
        ids, mask = item["input_ids"], item["attention_mask"]
        behind = int((mask.flip(0).cumsum(0) == 0).sum())
        if behind == len(mask):
            return Unreadable(f"item {index}", "it has no token to continue from")
        return {"input_ids": ids.roll(behind), "attention_mask": mask.roll(behind)}


def without_needless_mask(pull: Callable[[], Batch]) -> Callable[[], Batch]:
    """Return a `next` whose batches have a mask only where a prompt is padded: looking into one is a wait."""
    return partial(_unmasked, pull)


def _unmasked(pull: Callable[[], Batch]) -> Batch:
    batch = pull()
    ids = batch.tensors["input_ids"]
    if batch.tokens is not None and batch.tokens < ids.numel():
        return batch
    return Batch({"input_ids": ids}, batch.items, ids.numel(), batch.unreadable)

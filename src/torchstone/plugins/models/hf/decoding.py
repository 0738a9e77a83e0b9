"""How a transformers language model generates: its prompts in one pass, then a pass a token, with a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import torch
from transformers.cache_utils import DynamicCache, StaticCache

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import Decoding


class State(msgspec.Struct):
    """A generation under way. `seen`: the tokens in the cache.

    `mask` and `positions`: items × (prompt + generated tokens), where a prompt is padded; None where none is. Without
    them the model counts the tokens in its cache itself, and nothing looks into a mask, which waits for the device.
    """

    cache: Any
    mask: Any = None
    positions: Any = None
    seen: int = 0


class Cached:
    """Decoding with transformers' caches: one that grows with the tokens, or a static one, as compiled code needs."""

    def __init__(self, config: Any, *, static: bool) -> None:
        self._config = config
        self._static = static
        self._reused: tuple[tuple[int, int], Any] | None = None

    def start(self, module: Any, tensors: Mapping[str, Any], new_tokens: int) -> tuple[Any, State]:
        """Return the logits after each prompt, items × vocabulary, and the state in which it goes on.

        Only the last position of a prompt goes through the head, as in transformers' own generate().
        """
        ids, mask = tensors["input_ids"], tensors.get("attention_mask")
        # Operations are counted on meta tensors, in whose numbers a static cache could not look up its length.
        static = self._static and not ids.is_meta
        items, length = ids.shape
        room = length + new_tokens - 1  # the last token generated is not fed back
        state = State(self._static_cache(items, room) if static else DynamicCache(config=self._config))
        if mask is not None:
            state.mask = torch.cat([mask, mask.new_ones((items, new_tokens - 1))], dim=1)
            state.positions = (state.mask.cumsum(dim=1) - 1).clamp(min=0)
        return self._pass(module, ids, state), state

    def go_on(self, module: Any, tokens: Any, state: State) -> Any:
        """Return the logits after one more token of each item, items × vocabulary."""
        return self._pass(module, tokens[:, None], state)

    def cache_bytes(self, state: State) -> int:
        """Return the size of all keys and values in the cache."""
        return sum(int(layer.keys.nbytes) + int(layer.values.nbytes) for layer in state.cache.layers)

    def expected_bytes(self, items: int, tokens: int, number_bytes: int) -> int:
        """Return 2 (keys, values) × items × key heads × head size × tokens kept in each layer × bytes of a number."""
        config = self._config
        heads: int = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        layers = DynamicCache(config=config).layers  # a sliding layer keeps what its next query may still see
        windows = [getattr(layer, "sliding_window", None) for layer in layers]
        kept = sum(tokens if window is None else min(tokens, int(window) - 1) for window in windows)
        return 2 * items * heads * width * kept * number_bytes

    def _pass(self, module: Any, ids: Any, state: State) -> Any:
        end = state.seen + ids.shape[1]
        padded = {}
        if state.mask is not None:
            padded["attention_mask"] = state.mask if self._static else state.mask[:, :end]
            padded["position_ids"] = state.positions[:, state.seen : end]
        output = module(input_ids=ids, past_key_values=state.cache, use_cache=True, logits_to_keep=1, **padded)
        state.seen = end
        return output.logits[:, -1]

    def _static_cache(self, items: int, room: int) -> Any:
        """Return an empty cache: the same for every generation of a shape, for compiled code knows its addresses."""
        if self._reused is None or self._reused[0] != (items, room):
            self._reused = (items, room), StaticCache(config=self._config, max_cache_len=room)
        else:
            self._reused[1].reset()
        return self._reused[1]


def decoding(config: Any, configuration: Mapping[str, Scalar]) -> Decoding:
    """Return how a causal model of that config generates: with a static cache where its passes are compiled."""
    cached = Cached(config, static=configuration.get("compile", "off") != "off")
    return Decoding(cached.start, cached.go_on, cached.cache_bytes, cached.expected_bytes)

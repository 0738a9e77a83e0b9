"""Text generation as a server does it: greedy, with a cache of keys and values, prefill and decode apart.

The loop is our own: transformers' generate() has costs and stopping rules of its own. A step is one generation of
`new_tokens` tokens for a batch of prompts. Compiled code takes the tokens one by one; the prompts go through the
plain module, as transformers does it, for theirs is another shape.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from time import perf_counter
from typing import Any

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import merged
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.metric import DATA, DECODE, PREFILL
from torchstone.core.schema.model import Batch, Decoding, LoadedModel, Unreadable
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Mark, Prepared, Samples
from torchstone.plugins.tasks._inference import LOADER, SIZES, BesideFp32, FedEngine

_KEPT_TOKENS = 4096  # times between tokens, of the first generations of a window; of the others the mean
_DIGEST_BYTES = 6  # as many as a float holds exactly


def generate(
    decoding: Decoding,
    modules: tuple[Any, Any],
    tensors: Mapping[str, Any],
    new_tokens: int,
    deliver: Callable[[Any], None],
    mark: Mark,
) -> tuple[list[Any], Any]:
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


_NUMBER_BYTES = {"bf16": 2, "fp16": 2}  # of keys and values, under autocast


class PreparedGeneration(BesideFp32):
    """A causal model in eval mode on its device.

    In a latency window it streams: every token is on the host before the next is asked for, and the host's clock is
    read then. In a throughput window tokens stay on the device, and nothing waits for it before the window's end.
    """

    def __init__(self, case: Case, model: LoadedModel, device: Device) -> None:
        import torch

        from torchstone.plugins.tasks import _runtimes, _settings

        if model.decoding is None:
            raise Unsupported("task generate: the model has no decoding loop; use a language model of hf:, as gpt2")
        configuration = case.configuration
        self._new_tokens = int(configuration["new_tokens"] or 1)
        kept = int(configuration.get("sequence_length") or 1) + self._new_tokens - 1
        if model.input.longest is not None and kept > model.input.longest:
            asked = f"sequence_length={configuration.get('sequence_length')}, new_tokens={self._new_tokens}"
            raise Unsupported(f"{asked}: the model has {model.input.longest} positions, and this needs {kept}")
        self._variant = _runtimes.variant_of(configuration, device)
        super().__init__(case, model, device)
        self._decoding = model.decoding
        self._asked = self._plain  # prompts go through it, compiled or not
        self._stack = torch.stack
        # Entered once a generation, so that autocast converts each weight once and not for every token.
        self._in_precision = partial(_settings.in_precision, configuration=configuration, device=device)
        self._times = TokenTimes()
        self._streams = configuration.get("mode") != "throughput"
        self._first: list[Any] = []
        self._cache_bytes = 0
        number_bytes = _NUMBER_BYTES.get(str(self._precision), 4)
        self.facts = msgspec.structs.replace(
            self.facts,
            new_tokens=self._new_tokens,
            stops_at_end_of_sequence=False,
            kv_cache="grows" if self._module is self._plain else "static",
            kv_cache_expected_bytes=self._decoding.expected_bytes(
                int(configuration["batch_size"] or 1), kept, number_bytes
            ),
        )

    def build(self, pull: Callable[[], Batch], samples: Samples | None = None, seed: int = 0) -> Mapping[str, float]:
        """Quantize the model, and compare its answers to whole prompts with those of eager mode in fp32."""
        from torchstone.plugins.tasks import _runtimes, _settings

        if self._variant is None:
            return {}
        batches = [self._fetch(pull, _leave) for _ in range(_runtimes.COMPARED)]
        model, device = (self._plain, self._plain_forward), str(self._device.torch_device)
        built = _runtimes.build(self._variant, *model, batches, device=device)
        self._asked, self._module = built.module, _settings.compiled(built.module, self._configuration)
        self.facts = merged(self.facts, built.facts)
        return built.values

    def enter(self, window: str) -> None:
        """Stream in the latency window, and forget the clock readings of the warm-up; end what compiled in it."""
        self._compile_pool.close()
        self._streams = window == "latency"
        if self._streams:
            self._times = TokenTimes()

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        stamps_s: list[float] = []

        def marked(phase: str) -> None:
            if phase == DATA:  # the prompts are there: from here on their first tokens are waited for
                stamps_s.append(perf_counter())
            mark(phase)

        def stream(token: Any) -> None:
            token.tolist()
            stamps_s.append(perf_counter())

        tensors = self._fetch(pull, marked)
        deliver = stream if self._streams else _leave

        def work(single: Any, given: Mapping[str, Any]) -> tuple[list[Any], Any]:
            return generate(self._decoding, (self._asked, single), given, self._new_tokens, deliver, mark)

        with self._inference_mode():
            tokens, state = self._in_precision(work)(self._module, tensors)
        if self._streams:
            self._times.add(stamps_s)
        if not self._first:
            self._first, self._cache_bytes = tokens, self._decoding.cache_bytes(state)

    def results(self) -> Mapping[str, Sequence[float]]:
        if not self._first:
            return {}
        tokens = self._stack(self._first, 1).tolist()
        return {**self._times.raw(), "kv_cache_bytes": [float(self._cache_bytes)], "fingerprint": digest(tokens)}

    def count(self, batch: Batch) -> StepCounts:
        """Count one generation: the pass over the prompts, padding not left out, and the pass of every further token.

        A token's pass costs more than the one before by the same amount, that of one more key: the first and the last
        are counted, those between them follow. (Not quite, where a sliding window is outgrown on the way.)
        """
        if self._variant is not None:
            return StepCounts(why_not=Statement("integer_products"))
        prompts, passes = batch.tensors["input_ids"], self._new_tokens - 1
        if not passes:
            return self._counted(prompts, 1)
        before_last = prompts.new_zeros((len(prompts), prompts.shape[1] + passes - 1))
        counts = [self._counted(ids, tokens) for ids in (prompts, before_last) for tokens in (1, 2)]
        if (without := next((one for one in counts if one.flops is None), None)) is not None:
            return without

        def whole(name: str) -> float:
            prompt, and_first, longer, and_last = (getattr(one, name) for one in counts)
            return float(prompt + passes * (and_first - prompt + and_last - longer) / 2)

        return StepCounts(whole("flops"), whole("traffic_bytes"), whole("operators"))

    def _counted(self, prompts: Any, tokens: int) -> StepCounts:
        from torchstone.plugins.tasks import _flops

        def work(module: Any, tensors: Mapping[str, Any]) -> None:
            with self._inference_mode():
                generate(self._decoding, (module, module), tensors, tokens, _leave, _leave)

        return _flops.count(self._plain, work, {"input_ids": prompts}, self._precision)


def _leave(_: Any) -> None:
    """Leave a token on the device, or a phase unmarked."""


class Generate(FedEngine):
    """Engine for task generate."""

    describes = "greedy text generation with a cache: time to first token, time per output token, tokens/s"
    axes: tuple[str, ...] = (
        *(*SIZES[:2], "new_tokens", "precision", "compile", "quantization", "sdpa", "threads"),
        *(*LOADER, "feed", "mode"),
    )

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        prompts = Prompts(samples) if samples is not None else None
        batches = super().open_batches(case, model, prompts, device, seed)
        batches.next = without_needless_mask(batches.next)
        return batches

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        return PreparedGeneration(case, model, device)


PLUGIN: Engine = Generate()

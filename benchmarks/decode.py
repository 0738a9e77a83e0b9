"""Is the time per output token independent of the prompt, but for its attention? Do prefill and decode sum up?

GPT-2 (124 M, random weights) continues prompts of 32, 128 and 512 tokens through the real engine, in a closed loop on
the CPU; the blocks of a round come in random order, so that drift hits all alike. The times of tokens are the engine's
stamps, the whole is the window's own stopwatch.

What attention explains is measured where it happens: in every second block of a round the two places whose work grows
with the prompt are timed, transformers' cache (to add a token it copies the keys and values of all) and torch's
attention. A call on a CPU has finished when it returns; the stamps are two for each of two calls a layer. The time per
output token less that time is asked to be the same after every prompt. Beside it a model that knows nothing but bytes:
a token reads every weight once, and the cache three times over (copying it reads and writes, attention reads).

    python benchmarks/decode.py [--rounds 12] [--prompts 32,128,512] [--json FILE]      exit 1 if a claim does not hold
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from transformers.cache_utils import DynamicLayer

from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import View
from torchstone.core.stats.interval import Interval, over_trials
from torchstone.execution.timing.clock import LatencyStopwatch
from torchstone.execution.timing.loop import Instrument
from torchstone.execution.timing.stopping import FixedCount
from torchstone.plugins import registry

FUNCTIONS: Any = torch.nn.functional
UNEXPLAINED, APART = 0.02, 0.01  # how far a token may hang on the prompt still, and the parts miss the whole
_CACHE_PASSES = 3  # copied (read and written) to add a token, and read by attention


class Growing:
    """While it is entered, times what grows with the prompt in every pass of one token: cache and attention."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._update, self._attend = DynamicLayer.update, FUNCTIONS.scaled_dot_product_attention

    def __enter__(self) -> Self:
        self.spent_s = 0.0
        # Each names the tensor that says how many tokens a pass has: items × heads × tokens × head size.
        DynamicLayer.update = self._timed(self._update, 1)
        FUNCTIONS.scaled_dot_product_attention = self._timed(self._attend, 0)
        return self

    def __exit__(self, *_: object) -> None:
        DynamicLayer.update = self._update
        FUNCTIONS.scaled_dot_product_attention = self._attend

    def _timed(self, call: Callable[..., Any], which: int) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            began_s = time.perf_counter()
            result = call(*given, **named)
            if given[which].shape[-2] == 1:
                self.spent_s += time.perf_counter() - began_s
            return result

        return timed


class Prompt:
    """Prompts of one length, ready to be continued."""

    def __init__(self, name: str, length: int, new_tokens: int, loaded: dict[str, Any]) -> None:
        source, engine = registry.load("models", "hf"), registry.load("engines", "generate")
        defaults = {axis: AXES[axis].default for axis in engine.axes}
        values = {**defaults, "sequence_length": length, "new_tokens": new_tokens, "mode": "latency"}
        card = source.card(name, {})
        work = Workload(Task.GENERATE, f"hf:{name}", "synthetic:full", card.item, card.family, card.fixed)
        case = Case(work, values, Placement("cpu"))
        if name not in loaded:
            loaded[name] = source.load(name, work, values)
        self.model = loaded[name]
        self._device = registry.load("devices", "cpu").open(0)
        self._prepared = engine.prepare(case, self.model, self._device)
        samples = registry.load("data", "synthetic").samples("full", View(self.model.input, values))
        feed = engine.open_batches(case, self.model, samples, self._device, 0)
        self._instrument = Instrument(self._prepared.step, feed.next, self._device.synchronize, time.perf_counter)
        self._after = new_tokens - 1
        kept = length + new_tokens // 2  # tokens in the cache on average
        self.cache_bytes = self.model.decoding.expected_bytes(1, kept, 4)

    def block(self, *, growing: bool) -> dict[str, float]:
        """Continue one prompt; return seconds to the first token, for each after it, in all, and of what grows."""
        probe = Growing()
        self._prepared.enter("latency")
        if growing:
            with probe:
                window = self._window()
        else:
            window = self._window()
        told = self._prepared.results()
        return {
            "first_s": told["time_to_first_token_s"][0],
            "each_s": told["time_per_output_token_s"][0],
            "whole_s": window.laps_s[0] - window.waits_s[0],
            "tokens_after": self._after,
            **({"growing_s": probe.spent_s / self._after} if growing else {}),
        }

    def _window(self) -> Any:
        return self._instrument.window(LatencyStopwatch(self._device.synchronize, time.perf_counter), FixedCount(1))


def measure(name: str, lengths: Sequence[int], new_tokens: int, rounds: int) -> dict[str, Any]:
    """Return the blocks of every round, by the length of the prompt: first as it is, then with what grows timed."""
    loaded: dict[str, Any] = {}
    prompts = {length: Prompt(name, length, new_tokens, loaded) for length in lengths}
    module = loaded[name].module
    for prompt in prompts.values():  # warm
        prompt.block(growing=True)
    raw: dict[str, list[list[dict[str, float]]]] = {str(length): [] for length in lengths}
    dice = random.Random(0)
    for number in range(rounds):
        for length in dice.sample(list(lengths), len(lengths)):
            raw[str(length)].append([prompts[length].block(growing=growing) for growing in (False, True)])
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return {
        "model": name, "new_tokens": new_tokens, "rounds": rounds, "threads": torch.get_num_threads(),
        "weight_bytes": sum(p.nbytes for p in module.parameters()),
        "cache_bytes": {str(length): prompt.cache_bytes for length, prompt in prompts.items()}, "blocks": raw,
    }  # fmt: skip


def report(result: Mapping[str, Any]) -> bool:
    """Print the table; return whether each claim holds."""
    blocks, weights = result["blocks"], result["weight_bytes"]
    base, *_ = blocks
    each = {length: [plain["each_s"] for plain, _ in pairs] for length, pairs in blocks.items()}
    growing = {length: [timed["growing_s"] for _, timed in pairs] for length, pairs in blocks.items()}
    fixed = {length: [t["each_s"] - t["growing_s"] for _, t in pairs] for length, pairs in blocks.items()}
    print(f"\n{result['model']}, {result['new_tokens']} tokens after each prompt, {result['rounds']} rounds")
    print(f"{'prompt':>6}{'first token':>14}{'per token':>20}{f'against {base}':>20}{'cache, attention':>18}", end="")
    print(f"{'the rest':>20}{f'against {base}':>20}{'bytes say':>11}")
    good = True
    for length, pairs in blocks.items():
        first = over_trials([plain["first_s"] for plain, _ in pairs])
        rest = _against(fixed[length], fixed[base])
        bytes_say = _bytes(result, length, weights) / _bytes(result, base, weights)
        holds = abs(rest.value - 1.0) <= UNEXPLAINED or _holds_1(rest)
        good &= holds
        print(
            f"{length:>6}{1e3 * first.value:>11.1f} ms{_ms(over_trials(each[length])):>20}"
            f"{_times(_against(each[length], each[base])):>20}{_ms(over_trials(growing[length])):>18}"
            f"{_ms(over_trials(fixed[length])):>20}{_times(rest):>20}{bytes_say:>10.3f}×{'' if holds else '   MISSED'}"
        )
    slower = over_trials([t["each_s"] / p["each_s"] for pairs in blocks.values() for p, t in pairs])
    print(f"what timing the cache and attention costs a token: {_times(slower)}")
    off = sorted(abs(_parts(block) / block["whole_s"] - 1.0) for pairs in blocks.values() for p in pairs for block in p)
    worst, middle = off[-1], off[len(off) // 2]
    print(f"prefill + decode against the whole, {len(off)} blocks: median {middle:.4%}, worst {worst:.4%}")
    print(f"asked: the rest within {UNEXPLAINED:.0%}, or 1 in its interval; the parts within {APART:.0%} of the whole")
    return good and worst <= APART


def _bytes(result: Mapping[str, Any], length: str, weights: int) -> float:
    return weights + _CACHE_PASSES * result["cache_bytes"][length]


def _parts(block: Mapping[str, float]) -> float:
    return block["first_s"] + block["tokens_after"] * block["each_s"]


def _against(these: Sequence[float], those: Sequence[float]) -> Interval:
    """Return the ratio of times of the same rounds, with its interval."""
    return over_trials([a / b for a, b in zip(these, those, strict=True)])


def _holds_1(found: Interval) -> bool:
    return found.low is not None and found.high is not None and found.low <= 1.0 <= found.high


def _ms(found: Interval) -> str:
    return f"{1e3 * found.value:.2f} ms {_around(found)}"


def _times(found: Interval) -> str:
    return f"{found.value:.3f}× {_around(found)}"


def _around(found: Interval) -> str:
    if found.low is None or found.high is None:
        return ""
    return f"±{max(found.high - found.value, found.value - found.low) / found.value:.1%}"


def main() -> int:
    """Measure, keep the raw data, print; return 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--prompts", default="32,128,512", help="lengths in tokens (default 32,128,512)")
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--model", default="gpt2", help="of hf: (default gpt2)")
    parser.add_argument("--show", action="store_true", help="measure nothing, print what --json holds")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "decode.json")
    options = parser.parse_args()
    if options.show:
        return 0 if report(json.loads(options.json.read_text())) else 1
    lengths = [int(word) for word in options.prompts.split(",")]
    result = measure(options.model, lengths, options.new_tokens, options.rounds)
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), **result}))
    return 0 if report(result) else 1


if __name__ == "__main__":
    sys.exit(main())

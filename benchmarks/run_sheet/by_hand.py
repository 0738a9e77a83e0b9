"""Training and generation as a careful person writes them in PyTorch: the truth that torchstone's figures are held to.

Nothing of torchstone is imported here. Weights are random, from the config: nothing is downloaded. What each loop does,
in the words of PyTorch's own tutorials: weights in fp32, forward pass and loss under autocast in bf16, backward, fused
AdamW, gradients set to None; TF32 off; batches of fp32 images or token ids that already lie on the device, four of them
in turn. Generation is greedy, with a cache that grows, without gradients, every token left on the device.

The time is the host's: synchronise, read the clock, so many steps, synchronise, read the clock. No step is timed by
itself, and nothing else is done in the loop. Warm-up goes on for three seconds at least, so that clocks have risen and
kernels are chosen; then windows of two seconds, of which the median counts.

`python -m run_sheet.by_hand WORK --device cuda` prints one JSON object: seconds a step, items/s, the windows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

_BATCHES = 4
_LEARNING_RATE = 5e-5
_TINY = {
    "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128,
}  # fmt: skip
_TINY_GPT = {"vocab_size": 1000, "n_positions": 512, "n_embd": 64, "n_layer": 2, "n_head": 2, "bos_token_id": 0,
             "eos_token_id": 0}  # fmt: skip

Step = Callable[[], None]


@dataclass(frozen=True)
class Work:
    """One workload: its sizes, and what builds its step on a device."""

    batch_size: int
    length: int  # tokens, or pixels a side
    build: Callable[[Work, Any, Any], Step]
    new_tokens: int = 0
    tiny: bool = False


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────


def resnet_training(work: Work, device: Any, dtype: Any) -> Step:
    """ResNet-50 on images in NHWC: cross-entropy over 1,000 classes."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(num_labels=1000)
    model: Any = ResNetForImageClassification(config).train()
    model = model.to(memory_format=torch.channels_last).to(device)
    images = [
        torch.randn(work.batch_size, 3, work.length, work.length).to(device, memory_format=torch.channels_last)
        for _ in range(_BATCHES)
    ]
    labels = [torch.randint(0, 1000, (work.batch_size,), device=device) for _ in range(_BATCHES)]
    batches = itertools.cycle(zip(images, labels, strict=True))

    def loss() -> Any:
        pixels, targets = next(batches)
        return model(pixel_values=pixels, labels=targets).loss

    return training(model, loss, device, dtype)


def bert_training(work: Work, device: Any, dtype: Any) -> Step:
    """BERT-base with a classifier of two classes, on whole sequences: the mask is given, and has no zero."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(**_TINY) if work.tiny else BertConfig()
    model: Any = BertForSequenceClassification(config).train().to(device)
    ids = [_tokens(work, config.vocab_size, device) for _ in range(_BATCHES)]
    labels = [torch.randint(0, 2, (work.batch_size,), device=device) for _ in range(_BATCHES)]
    mask = torch.ones_like(ids[0])
    batches = itertools.cycle(zip(ids, labels, strict=True))

    def loss() -> Any:
        tokens, targets = next(batches)
        return model(input_ids=tokens, attention_mask=mask, labels=targets).loss

    return training(model, loss, device, dtype)


def gpt_training(work: Work, device: Any, dtype: Any) -> Step:
    """GPT-2 small, next-token prediction: the mean cross-entropy, in fp32, of each token but the first."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(**_TINY_GPT) if work.tiny else GPT2Config()
    model: Any = GPT2LMHeadModel(config).train().to(device)
    ids = [_tokens(work, config.vocab_size, device) for _ in range(_BATCHES)]
    mask = torch.ones_like(ids[0])
    batches = itertools.cycle(ids)
    cross_entropy = torch.nn.functional.cross_entropy

    def loss() -> Any:
        tokens = next(batches)
        logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
        return cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())

    return training(model, loss, device, dtype)


def training(model: Any, loss: Callable[[], Any], device: Any, dtype: Any) -> Step:
    """One optimizer step: forward and loss under autocast, backward outside of it, as PyTorch's page on AMP has it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, fused=True)
    autocast, kind = torch.autocast, device.type

    def step() -> None:
        with autocast(device_type=kind, dtype=dtype, enabled=dtype != torch.float32):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# ── generation ──────────────────────────────────────────────────────────────────────────────────────────────


def gpt_generation(work: Work, device: Any, dtype: Any) -> Step:
    """GPT-2 small goes on with a batch of prompts: one pass over them, then one a token, the likeliest each time."""
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

    config = GPT2Config(**_TINY_GPT) if work.tiny else GPT2Config()
    model: Any = GPT2LMHeadModel(config).eval().to(device)
    prompts = itertools.cycle([_tokens(work, config.vocab_size, device) for _ in range(_BATCHES)])
    kind = device.type

    def step() -> None:
        ids = next(prompts)
        # Autocast is entered once a generation: it converts a weight when it first meets it, and keeps it so long.
        with torch.inference_mode(), torch.autocast(device_type=kind, dtype=dtype, enabled=dtype != torch.float32):
            cache = DynamicCache(config=config)
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
            token = logits.argmax(-1)
            for _ in range(work.new_tokens - 1):
                logits = model(
                    input_ids=token[:, None], past_key_values=cache, use_cache=True, logits_to_keep=1
                ).logits[:, -1]  # fmt: skip
                token = logits.argmax(-1)

    return step


def _tokens(work: Work, vocabulary: int, device: Any) -> Any:
    return torch.randint(5, vocabulary, (work.batch_size, work.length), device=device)


WORKS = {
    "resnet": Work(256, 224, resnet_training), "bert": Work(256, 128, bert_training),
    "gpt2": Work(16, 1024, gpt_training), "generate": Work(16, 128, gpt_generation, new_tokens=64),
    "bert-tiny": Work(8, 64, bert_training, tiny=True),
    "generate-tiny": Work(4, 32, gpt_generation, new_tokens=16, tiny=True),
}  # fmt: skip

# ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────


def timed(step: Step, synchronize: Callable[[], None], warm_s: float, window_s: float, windows: int) -> list[float]:
    """Return seconds a step, one value a window. Each window is synchronised at its two ends and nowhere else."""
    clock = time.perf_counter
    synchronize()
    began_s, steps = clock(), 0
    for count in _ever_more():
        for _ in range(count):
            step()
        synchronize()
        steps += count
        if clock() - began_s >= warm_s and steps >= 5:
            break
    count, began_s = max(2, steps // 4), clock()
    for _ in range(count):
        step()
    synchronize()
    count = max(5, math.ceil(window_s / ((clock() - began_s) / count)))
    found = []
    for _ in range(windows):
        synchronize()
        began_s = clock()
        for _ in range(count):
            step()
        synchronize()
        found.append((clock() - began_s) / count)
    return found


def _ever_more() -> Iterator[int]:
    """Yield 1, 2, 4, … up to 32: the first step may take a second, and later ones a millisecond."""
    return (min(32, 2**n) for n in itertools.count())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=sorted(WORKS))
    parser.add_argument("--device", default="cuda", help="as torch calls it")
    parser.add_argument("--precision", default="bf16", choices=("bf16", "fp16", "fp32"))
    parser.add_argument("--warm", type=float, default=3.0, help="seconds")
    parser.add_argument("--window", type=float, default=2.0, help="seconds")
    parser.add_argument("--windows", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    kind = options.device
    device = torch.device(kind) if kind in ("cpu", "mps") else torch.device(kind, 0)
    module: Any = None if kind == "cpu" else torch.get_device_module(kind)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[options.precision]
    work = WORKS[options.work]
    step = work.build(work, device, dtype)
    synchronize = module.synchronize if module is not None else lambda: None
    found = timed(step, synchronize, options.warm, options.window, options.windows)
    step_s = median(found)
    peak = module.max_memory_allocated() if hasattr(module, "max_memory_allocated") else None
    print(json.dumps({
        "step_s": step_s, "items_s": work.batch_size / step_s, "windows_s": found, "peak_bytes": peak,
        "torch": torch.__version__,
    }))  # fmt: skip


if __name__ == "__main__":
    main()

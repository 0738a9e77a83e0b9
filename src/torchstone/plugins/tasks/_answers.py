"""Counts for how many items of real data a model answers as its reference does, and which of both is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.quality import AnswerCounts
from torchstone.plugins.protocols import Samples
from torchstone.plugins.tasks._batches import collate_of

_MOST_ITEMS, _MOST_S = 10_000, 30.0  # without a difference, 381 items are enough for a margin of 1 %

_CALIBRATED = ("int8-static",)
_MOST_CALIBRATION = 256  # items: ranges of activations settle within a few hundred

Answer = Callable[[Mapping[str, Any]], Sequence[Any]]


def counted(
    answer: Answer, reference: Answer, samples: Samples, configuration: Mapping[str, Scalar], seed: int
) -> AnswerCounts | None:
    """Ask both for the same items, drawn by the seed, in whole batches, until there are enough or time is over.

    The time is no ground for a bias: it does not hang on what they answer. None where the outputs have no classes.
    """
    size, stack = int(configuration["batch_size"] or 1), collate_of(samples)
    drawn, _ = _shares(len(samples), configuration, seed)
    until_s, items, labelled = time.perf_counter() + _MOST_S, 0, True
    totals = torch.zeros(4, dtype=torch.long)
    for begin in range(0, len(drawn) - size + 1, size):
        batch = stack([samples[number] for number in drawn[begin : begin + size]])
        if batch.items != size:
            continue  # one could not be read, and a runtime takes whole batches only
        ours, theirs = _classes(reference(batch.tensors), size), _classes(answer(batch.tensors), size)
        if ours is None or theirs is None:
            return None
        labels = batch.tensors.get("labels")
        if not isinstance(labels, torch.Tensor) or labels.shape != ours.shape or labels.is_floating_point():
            labelled, labels = False, ours
        was, now = ours == labels, theirs == labels
        totals += torch.stack([(ours == theirs).sum(), (was & now).sum(), (was & ~now).sum(), (now & ~was).sum()])
        items += size
        if time.perf_counter() > until_s:
            break
    if not items:
        return None
    same, *of_labels = totals.tolist()
    return AnswerCounts(items, same, *of_labels) if labelled else AnswerCounts(items, same)


def _shares(items: int, configuration: Mapping[str, Scalar], seed: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the numbers of the items that are compared, and of those behind them, which calibrate a static format."""
    drawn = torch.randperm(items, generator=torch.Generator().manual_seed(seed)).tolist()
    if configuration.get("quantization") not in _CALIBRATED:
        return drawn[:_MOST_ITEMS], ()
    size = int(configuration["batch_size"] or 1)
    begin = items - max(size, min(_MOST_CALIBRATION, items // 4) // size * size)
    return drawn[: max(0, begin)][:_MOST_ITEMS], drawn[max(0, begin) :]


def calibration(samples: Samples, configuration: Mapping[str, Scalar], seed: int) -> Iterator[Mapping[str, Any]]:
    """Yield the batches that calibrate a static format; none where all items are too few for a batch of each kind."""
    size, stack = int(configuration["batch_size"] or 1), collate_of(samples)
    _, kept = _shares(len(samples), configuration, seed)
    for begin in range(0, len(kept) - size + 1, size):
        batch = stack([samples[number] for number in kept[begin : begin + size]])
        if batch.items == size:
            yield batch.tensors


def _classes(outputs: Sequence[Any], items: int) -> Any:
    """Return the class of each item by the first output; None where that does not hold scores of classes."""
    first = outputs[0] if outputs else None
    if first is None or not first.is_floating_point() or first.dim() != 2 or first.shape[1] < 2:
        return None
    return first.argmax(1) if first.shape[0] == items else None

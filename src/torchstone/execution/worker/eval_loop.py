"""The evaluation loop: one pass in eval mode over every item once; loss, accuracy and predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchstone.core.schema.batch import Batch
from torchstone.core.schema.fit import Quality
from torchstone.core.schema.model import InputSpec
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.protocols import Batches, Trainable

Told = Callable[[Any, Any], None]  # labels and probabilities (items × classes) of a batch, on the CPU
Timed = Callable[[float, int], None]  # seconds of a batch until its answers are read, and its items


def judge(
    prepared: Trainable, batches: Batches, spec: InputSpec, told: Told | None = None, timed: Timed | None = None
) -> Quality:
    """Judge the model on every item of the batches, and leave it as it was. The caller closes the batches.

    The loss is the mean over items. Where items have classes it is the cross-entropy of the answers, so that one pass
    gives both; elsewhere, and for a user's own model, it is the model's own loss.
    """
    module = prepared.module
    training = module.training
    module.eval()
    total, right, items, counted = 0.0, 0, 0, False
    try:
        for batch in _all(batches):
            began_s = system_clock()
            scores = class_scores(prepared.answers(batch), batch.tensors.get("labels"), spec)
            if scores is not None:
                loss, hits, probabilities = _judged(scores, batch.tensors["labels"])
                counted = True
                right += hits
                if told is not None:
                    told(batch.tensors["labels"], probabilities)
            if scores is None or spec.kind == "own":
                loss = prepared.loss_of(batch)
            if timed is not None:
                timed(system_clock() - began_s, batch.items)
            total += loss * batch.items
            items += batch.items
    finally:
        module.train(training)
    return Quality(total / items, right / items if counted else None, items)


def class_scores(output: Any, labels: Any, spec: InputSpec) -> Any:
    """Return the scores of each class, items × classes, in an output; None where the items have no classes."""
    import torch

    if labels is None or labels.dim() != 1 or labels.is_floating_point() or spec.causal:
        return None
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif isinstance(output, Sequence) and output:
        output = output[0]
    output = getattr(output, "logits", output)
    if not isinstance(output, torch.Tensor) or output.dim() != 2 or not output.is_floating_point():
        return None
    return output


def _judged(scores: Any, labels: Any) -> tuple[float, int, Any]:
    from torch.nn.functional import cross_entropy

    scores = scores.float().cpu()
    hits = int((scores.argmax(dim=1) == labels).sum())
    return float(cross_entropy(scores, labels)), hits, scores.softmax(dim=1)


def _all(batches: Batches) -> Sequence[Batch] | Any:
    while True:
        try:
            yield batches.next()
        except StopIteration:
            return

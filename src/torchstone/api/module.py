"""`torchstone.measure`: a module at hand, in the user's own process, by the same engines as the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.api.bench import Bench
from torchstone.api.keeping import Keeping
from torchstone.api.recording import default_folder, keep, open_device
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import effective, notes
from torchstone.core.schema.run import Plan, Slot


def measure(
    module: Any,
    batch: Any,
    *,
    task: str = "infer",
    loss: Callable[..., Any] | None = None,
    optimizer: Callable[[Iterable[Any]], Any] | None = None,
    device: str = "auto",
    trials: int = 3,
    warmup: int | None = None,
    iterations: int | None = None,
    budget_s: float = 2.0,
    target: float | None = 0.01,
    name: str | None = None,
    output_dir: str | Path | None = None,
    **axes: Scalar,
) -> RunSummary:
    """Measure a module at hand and return the run's summary; an ordinary record is written.

    Everything is left as it was, also after an exception or Ctrl-C: the module (weights, buffers, gradients, hooks,
    mode, device, number format), the optimizer, the random numbers, torch's switches. Every trial begins with the same
    weights. It costs a copy of the tensors of module and optimizer in host memory: the facts `kept_bytes`, `kept_s`
    and `restored_s` of each trial. What is not kept: objects of other kinds that the module refers to, what a data set
    caches, and the graph of a loss whose `backward()` is still to come.

    Parameters
    ----------
    module: a torch.nn.Module. Lazy ones are called once at the beginning of each trial.
    batch: an example batch, items along dimension 0: a tensor, a tuple of positional inputs, or a mapping of keyword
        inputs; for task "train" a pair (inputs, target) goes with `loss(output, target)`, and a mapping without a
        `loss` is passed to a module that returns an object with a `.loss`. Or a Dataset, a DataLoader, or batches: each
        step then waits for its batch. A DataLoader keeps its batch size and workers unless `axes` say others.
    task: "infer", "train", or "load" (the loader alone).
    loss: for training, loss(output, target) → scalar tensor.
    optimizer: for training, optimizer(parameters) → torch.optim.Optimizer; None: the axis `optimizer`.
    trials: repetitions of warm-up and windows. They share this process, so their interval leaves out what differs
        between processes (12 to 22 % on a shared machine); `torchstone run` has fresh ones.
    budget_s, target: a window ends after so many seconds, or when its mean is known this well.
    axes: values of axes, e.g. precision="bf16", compile="default", batch_size=8 (a batch is repeated or cut to it).

    Raises:
    ------
    UsageError: an unknown axis or task, a batch without tensors. Unsupported: the device or module cannot do it.
    MissingError: the host has no memory for the copy. What the module itself raises goes on.

    """
    given = {"warmup": warmup, "iterations": iterations, "budget_s": budget_s, "target": target}
    procedure, title = _procedure(trials, given), name or type(module).__name__
    parts = {"model": module, "example": batch, "loss": loss, "optimizer": optimizer}
    folder = Path(output_dir) if output_dir is not None else default_folder()
    with Keeping(parts) as kept:
        bench = Bench("measure", task, parts, title, procedure, kept)
        opened = open_device(device)
        case = bench.case(opened.placement, axes)
        told = notes([[case.configuration]], [case.placement])
        (settings,) = effective([case.configuration], case.placement)
        case = msgspec.structs.replace(case, configuration=settings)
        plan = Plan((case,), tuple(Slot(0, number) for number in range(trials)))
        return keep(plan, procedure, title, folder, lambda slot, order: bench.take(case, opened, slot, order), told)


def _procedure(trials: int, given: Mapping[str, Any]) -> Procedure:
    for word, count in (("trials", trials), ("iterations", given["iterations"])):
        if count is not None and count < 1:
            raise UsageError(f"measure: {word}={count} is too small: 1 or more")
    # The process is the user's: nothing is set in it that was not asked for.
    return Procedure(trials=trials, isolation="inline", heap="default", settings="torch", **given)

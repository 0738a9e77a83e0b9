"""`torchstone.measure`: a module at hand or any function, by the same engines as the command line."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.api.bench import Bench
from torchstone.api.benchmarking import benchmark
from torchstone.api.keeping import Keeping
from torchstone.api.recording import default_folder, device_in_words, keep
from torchstone.core.errors import UsageError
from torchstone.core.own_files import write_whole
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import effective, notes
from torchstone.core.schema.run import Plan, Slot
from torchstone.plugins import registry

IN_THIS_PROCESS = "in_this_process"


def measure(
    function: Any,
    *arguments: Any,
    task: str | None = None,
    loss: Callable[..., Any] | None = None,
    optimizer: Callable[[Iterable[Any]], Any] | None = None,
    device: str = "auto",
    trials: int | None = None,
    warmup: int | None = None,
    iterations: int | None = None,
    budget_s: float = 2.0,
    target: float | None = 0.01,
    name: str | None = None,
    output_dir: str | Path | None = None,
    **axes: Scalar,
) -> RunSummary:
    """Measure a module or a function at hand and return the run's summary; an ordinary record is written.

    A function is called with `arguments`, each call is a step. Where a fresh process can import it and its arguments
    are numbers, texts, tensors, or lists, tuples and dictionaries of them, each trial is such a process, and the
    interval is over processes. Elsewhere (a lambda, a function of a notebook) it is called in this process, the
    interval is over rounds of calls, and the finding `in_this_process` has the reason. Arguments are then put back as
    they were; what else the function reaches is left as it leaves it.

    A module is measured in this process with one argument, its batch. Everything is left as it was, also after an
    exception or Ctrl-C: the module (weights, buffers, gradients, hooks, mode, device, number format), the optimizer,
    the random numbers, torch's switches. Every trial begins with the same weights. It costs a copy of the tensors of
    module and optimizer in host memory: the facts `kept_bytes`, `kept_s` and `restored_s` of each trial. What is not
    kept: objects of other kinds that the module refers to, what a data set caches, and the graph of a loss whose
    `backward()` is still to come.

    Parameters
    ----------
    function: a torch.nn.Module, or anything that can be called.
    arguments: of the function. Of a module an example batch, items along dimension 0: a tensor, a tuple of positional
        inputs, or a mapping of keyword inputs; for task "train" a pair (inputs, target) goes with `loss(output,
        target)`, and a mapping without a `loss` is passed to a module that returns an object with a `.loss`. Or a
        Dataset, a DataLoader, or batches: each step then waits for its batch. A DataLoader keeps its batch size and
        workers unless `axes` say others.
    task: of a module "infer" (the default), "train", or "load" (the loader alone); of a function always "call".
    loss: for training, loss(output, target) → scalar tensor.
    optimizer: for training, optimizer(parameters) → torch.optim.Optimizer; None: the axis `optimizer`.
    trials: fresh processes, as many as are needed where none are asked for; in this process repetitions of warm-up and
        windows (default 3), whose interval leaves out what differs between processes (12 to 22 % on a shared machine).
    budget_s, target: a window ends after so many seconds, or when its mean is known this well.
    axes: values of axes, e.g. precision="bf16", compile="default", batch_size=8 (a batch is repeated or cut to it); a
        function has `threads` and `mode`.

    Raises:
    ------
    UsageError: an unknown axis or task, a batch without tensors. Unsupported: the device or module cannot do it.
    MissingError: the host has no memory for the copy. What module or function itself raises goes on.

    """
    import torch

    given = {"warmup": warmup, "iterations": iterations, "budget_s": budget_s, "target": target}
    folder = Path(output_dir) if output_dir is not None else default_folder()
    reason: str | None = None
    if isinstance(function, torch.nn.Module):
        if len(arguments) != 1:
            raise UsageError(f"measure: a module and one batch, got {len(arguments)}; several inputs are one tuple")
        task, title = task or "infer", name or type(function).__name__
        parts: dict[str, Any] = {"model": function, "example": arguments[0], "loss": loss, "optimizer": optimizer}
    else:
        _check_function(function, {"task": task, "loss": loss, "optimizer": optimizer})
        task, title = str(Task.CALL), name or str(getattr(function, "__name__", type(function).__name__))
        device = tensor_device(arguments) if device == "auto" else device
        options, reason = sent(function, arguments, folder)
        if reason is None:
            how = _procedure(trials, inline=False, **given)
            where: dict[str, Any] = {"device": device, "name": title, "output_dir": folder}
            return benchmark(function, task=task, axes=axes, options=options, procedure=how, **where).summary
        parts = {"function": function, "arguments": arguments}
    procedure = _procedure(3 if trials is None else trials, inline=True, **given)
    with Keeping(parts) as kept:
        bench = Bench("measure", task, parts, title, procedure, kept)
        opened = device_in_words(device)
        case = bench.case(opened.placement, axes)
        told = notes([[case.configuration]], [case.placement])
        (settings,) = effective([case.configuration], case.placement)
        case = msgspec.structs.replace(case, configuration=settings)
        if reason is not None:
            told = [*told, Finding(IN_THIS_PROCESS, Severity.INFO, case.case_id, reason=reason)]
        plan = Plan((case,), tuple(Slot(0, number) for number in range(procedure.repetitions)))
        return keep(plan, procedure, title, folder, lambda slot, order: bench.take(case, opened, slot, order), told)


def _procedure(trials: int | None, *, inline: bool, **given: Any) -> Procedure:
    for word, count in (("trials", trials), ("iterations", given["iterations"])):
        if count is not None and count < 1:
            raise UsageError(f"measure: {word}={count} is too small: 1 or more")
    if not inline:
        return Procedure(trials=trials, **given)
    # The process is the user's: nothing is set in it that was not asked for.
    return Procedure(trials=trials, isolation="inline", heap="default", settings="torch", **given)


def _check_function(function: Any, given: Mapping[str, Any]) -> None:
    if not callable(function):
        raise UsageError(f"measure: a {type(function).__name__} is neither a module nor a function")
    wrong = next((word for word, value in given.items() if value not in (None, Task.CALL)), None)
    if wrong is not None:
        raise UsageError(f"measure: {wrong} is for modules: a function is called as it is, with task call")
    if registry.load("models", "py").loading():
        raise UsageError(
            "torchstone.measure was called while a trial imports this file for its function: put the call under "
            "if __name__ == '__main__':"
        )


def tensor_device(arguments: Sequence[Any]) -> str:
    """Return the device of the first tensor; auto where there is none."""
    import torch

    first = next((one.device for one in arguments if isinstance(one, torch.Tensor)), None)
    return "auto" if first is None else str(first)


def sent(function: Any, arguments: Sequence[Any], folder: Path) -> tuple[dict[str, Scalar], str | None]:
    """Return the options with which a fresh process calls the function so, or why none can."""
    import torch

    source = registry.load("models", "py")
    try:
        source.spelled(function)
    except UsageError:
        return {}, "function"
    if not arguments:
        return {}, None
    buffer = io.BytesIO()
    try:
        torch.save((arguments, {}), buffer)
        torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
    except Exception:  # whatever an object does when it is pickled
        return {}, "arguments"
    file = folder / "arguments" / f"{hashlib.sha256(buffer.getvalue()).hexdigest()[:16]}.pt"
    write_whole(file, buffer.getvalue(), folder)
    return {source.saved_arguments: str(file)}, None

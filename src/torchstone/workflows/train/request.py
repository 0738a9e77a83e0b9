"""What a training was asked for, checked without torch: one workload, one value of each axis, and its Fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard
from torchstone.core.schema.case import Workload
from torchstone.core.schema.procedure import Procedure
from torchstone.execution import plan
from torchstone.plugins.data_choice import has_end
from torchstone.plugins.model_choice import card_of

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest

_LONGEST_S = 30 * 86400.0  # a training takes what it takes; a loader that hangs is ended some day
_JUDGED_ON = ("validation", "test")  # the split to judge epochs on: the first that there is


class TrainingAsked(msgspec.Struct, frozen=True):
    """A training that is checked as far as it can be without torch."""

    name: str
    device: str
    workload: Workload
    configuration: Mapping[str, Scalar]
    procedure: Procedure
    labels: tuple[str, ...]
    own: bool
    source: object = None
    code_sha256: str | None = None
    left_open: tuple[str, ...] = ()  # axes that the data of the user's own code decides


def asked_training(request: RunRequest, epochs: int | None, steps: int | None, *, limited: bool) -> TrainingAsked:
    """Check what a recipe and flags ask for. Raises UsageError if it is no training, or more than one.

    `epochs` and `steps` as given on the command line; without them the recipe's. `limited`: the Procedure's timeout was
    given, and is meant.
    """
    if len(request.workloads) > 1:
        models = ", ".join(w.model for w in request.workloads)
        raise UsageError(f"train takes one model, {request.name} has {models}; choose one with --model")
    (asked,) = request.workloads
    if asked.task != "train":
        raise UsageError(f"train does task train, not {asked.task}")
    one = _with_weights(_fixed(asked))
    sketch = plan.sketch(one)
    # Whether a user's own function brings a data set is known when it has been called.
    if not has_end(sketch.workload.data) and sketch.workload.data != "example" and steps is None:
        raise UsageError(
            f"{one.model}: data {sketch.workload.data} is endless and has no epochs; give --data or --steps N"
        )
    fit = request.fit.fit
    split = sketch.workload.data_options.get("split")
    if sketch.data is not None and split == "train":
        found = next((other for other in _JUDGED_ON if other in sketch.data.splits), None)
        fit = msgspec.structs.replace(fit, validation_split=found)
    procedure = msgspec.structs.replace(
        request.procedure, trials=1, epochs=epochs or (1 if steps is not None else request.fit.epochs or 1),
        iterations=steps, timeout_s=request.procedure.timeout_s if limited else _LONGEST_S, phases=False,
        time_limit_s=None, count_flops=False, fit=fit,
    )  # fmt: skip
    return TrainingAsked(
        request.name or "train", request.device, absolute(sketch.workload), sketch.configurations[0], procedure,
        _labels(sketch.data), sketch.own, request.source, sketch.code_sha256, sketch.left_open,
    )  # fmt: skip


def _fixed(workload: WorkloadRequest) -> WorkloadRequest:
    for axis, values in workload.axes.items():
        if len(values) > 1:
            several = ", ".join(map(str, values))
            raise UsageError(
                f"train takes one value of {axis}, {workload.model} has {several}: `torchstone tune` finds the best, "
                f"or give --axis {axis}={values[0]}"
            )
    return msgspec.structs.replace(workload, axes={**workload.axes, "feed": ("loader",)})


def _with_weights(workload: WorkloadRequest) -> WorkloadRequest:
    """Return it with pretrained weights, where there are such and nobody said which.

    How fast a step is does not hang on the weights, so `run` takes random ones; what a training comes to does.
    """
    if "weights" in workload.options or not card_of(workload.model, workload.options).pretrained:
        return workload
    return msgspec.structs.replace(workload, options={**workload.options, "weights": "pretrained"})


def _labels(card: DataCard | None) -> tuple[str, ...]:
    if card is None:
        return ()
    return card.labels or tuple(str(n) for n in range(card.classes or 0))


def absolute(workload: Workload) -> Workload:
    """Return the workload with the path of its data made absolute: its folder may be used from anywhere."""
    scheme, colon, path = workload.data.partition(":")
    here = Path(path).expanduser()
    if not colon or not here.exists():
        return workload
    return msgspec.structs.replace(workload, data=f"{scheme}:{here.resolve()}")


def absolute_model(workload: Workload) -> str:
    """Return the model with the path of its folder or file made absolute: who judges it may stand elsewhere."""
    scheme, _, name = workload.model.partition(":")
    if workload.fixed.get("source") == "folder":
        return f"{scheme}:{Path(name).expanduser().resolve()}"
    bare, at, file = workload.model.partition("@")
    with_file = at and workload.fixed.get("weights") == "file"
    return f"{bare}@{Path(file).expanduser().resolve()}" if with_file else workload.model

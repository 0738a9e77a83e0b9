"""What a record's workloads were asked for with, and whether that is still here: files, data, the user's own code."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Workload
from torchstone.core.schema.ranks import NODES, most_nodes
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.run import Head
from torchstone.execution.plan import sketch
from torchstone.plugins import registry

_ARGUMENT = "argument_"  # of the user's own function, as its source `py` has them among what is fixed


class Rechecked(msgspec.Struct, frozen=True):
    """A record's workloads looked at now: what has changed of them, and a Case of each that is the user's own code.

    `code`: SHA-256 of the user's own model files as they are now, by what the model is called.
    """

    changes: tuple[str, ...]
    own: tuple[Case, ...]
    code: dict[str, str]


def asked_for(head: Head) -> Sequence[Case]:
    """Return the Cases that were asked for. Those that a search added are of the same workload, or of its parts."""
    return head.plan.cases if head.tune is None else (head.tune.base,)


def nodes_for(head: Head) -> int:
    """Return on how many nodes of an allocation the largest Case of a run is, or may be."""
    searched = [{NODES: value} for value in head.tune.axes.get(NODES, ())] if head.tune is not None else []
    return most_nodes((*(case.configuration for case in asked_for(head)), *searched))


def workloads(cases: Sequence[Case]) -> list[Workload]:
    """Return each workload once, in the order of the Cases."""
    found: list[Workload] = []
    for case in cases:
        if case.workload not in found:
            found.append(case.workload)
    return found


def recheck(head: Head, cases: Sequence[Case]) -> Rechecked:
    """Look whether models, data and code of these Cases of a run are what they were.

    Raises UsageError for a run that was measured in the user's own program: nothing else can measure it.
    """
    every = workloads(cases)
    for workload in every:
        if workload.model.partition(":")[0] not in registry.names("models"):
            raise UsageError(f"{head.run_id} was measured in your own program: only that program can continue it")
    changes: list[str] = []
    own: list[Case] = []
    code: dict[str, str] = {}
    for workload in every:
        try:
            found = sketch(_request(workload))
        except UsageError as fault:
            changes.append(str(fault))
            continue
        now, then = dict(found.workload.fixed), dict(workload.fixed)
        changes += [
            f"{workload.model}, {workload.data}: {name} was {then.get(name)}, is {now.get(name)}"
            for name in sorted(now.keys() | then.keys()) if now.get(name) != then.get(name)
        ]  # fmt: skip
        if head.code.get(workload.model, found.code_sha256) != found.code_sha256:
            changes.append(f"{workload.model}: its file has changed")
        if found.code_sha256 is not None:
            code[workload.model] = found.code_sha256
        if found.own:
            own.append(next(case for case in cases if case.workload == workload))
    return Rechecked(tuple(changes), tuple(own), code)


def _request(workload: Workload) -> WorkloadRequest:
    """Return what the workload was asked for with, as far as it is part of what it is."""
    fixed = workload.fixed
    options: dict[str, Scalar] = {
        name.removeprefix(_ARGUMENT): value for name, value in fixed.items() if name.startswith(_ARGUMENT)
    }
    if (weights := fixed.get("weights")) in ("random", "pretrained"):
        options["weights"] = str(weights)
    if isinstance(classes := fixed.get("classes"), int):
        options["classes"] = classes
    return WorkloadRequest(
        str(workload.task), workload.model, workload.data, options, data_options=workload.data_options
    )

"""From a request to an Answer: Cases on cards, each followed once for all cards that treat it alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from torchstone.config.run_file import RunRequest
from torchstone.core.cards import Card
from torchstone.core.errors import UsageError
from torchstone.core.library_workspace import workspace_bytes
from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.case import Case, Placement, Workload, model_name
from torchstone.core.schema.message import MemoryRequest, MemoryTold
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution import plan
from torchstone.execution.controller.session import Session
from torchstone.plugins import registry
from torchstone.plugins.model_choice import card_of
from torchstone.workflows.memory import tracing
from torchstone.workflows.memory.answer import Answer, Row, limit_bytes

TASKS = ("train", "infer")
_OTHERWISE = "memory predicts train and infer only"
Tell = Callable[[str], None]


class Asked(NamedTuple):
    """One Configuration on one card."""

    card: Card
    case: Case
    left_open: tuple[str, ...] = ()


def asked_of(request: RunRequest, cards: Sequence[Card]) -> list[Asked]:
    """Return every Configuration of the request on every card. Raises UsageError for what is wrong with it."""
    found = []
    for workload in shapes_only(request).workloads:
        sketch = plan.sketch(workload.excluding(request.exclude))
        for card in cards:
            for configuration in sketch.configurations:
                settings = plan.on_device(configuration, card.info())
                found.append(Asked(card, Case(sketch.workload, settings, Placement(card.kind)), sketch.left_open))
    return found


def shapes_only(request: RunRequest) -> RunRequest:
    """Return a request for its training and inference with made data of the same shape.

    What is named need not be here to know what fits; random weights are as large as any. Raises UsageError where there
    is neither.
    """
    workloads = tuple(_shaped(w) for w in request.workloads if w.task in TASKS)
    if not workloads:
        named = ", ".join(dict.fromkeys(w.task for w in request.workloads))
        raise UsageError(f"task {named}: {_OTHERWISE}; type --task train")
    return msgspec.structs.replace(request, workloads=workloads)


def _takes_random_weights(model: str, options: Mapping[str, Scalar]) -> bool:
    try:
        card_of(model, {**options, "weights": "random"})
    except UsageError:
        return False
    return True


def _shaped(workload: WorkloadRequest) -> WorkloadRequest:
    options = {name: value for name, value in workload.options.items() if name != "weights"}
    if _takes_random_weights(workload.model, options):  # then those of a file need not be here
        options["weights"] = "random"
    axes = dict(workload.axes)
    made = workload.data is None or workload.data.partition(":")[0] in ("synthetic", "example")
    if not made and workload.task == "train":  # real data come through the loader, a batch at a time
        axes.setdefault("feed", ("loader",))
    return msgspec.structs.replace(workload, data=None, data_options={}, options=options, axes=axes)


def answered(request: RunRequest, asked: Sequence[Asked], tell: Tell) -> Answer:
    """Follow what was asked about. `tell` hears what is followed next. Raises UsageError, TorchstoneError."""
    models = dict.fromkeys(one.case.workload.model for one in asked)
    groups = _alike(asked)
    found: dict[int, Row] = {}
    with Session(request.procedure, tuple(models)) as session:
        for group in groups:
            first = asked[group[0]]
            tell(f"{first.case.workload.task} {model_name(first.case.workload.model)}")
            found.update(_rows(session, request, [(n, asked[n]) for n in group]))
    rows = tuple(found[number] for number in range(len(asked)))
    axes = tuple(axis for axis in _names(rows) if len({_value(row, axis) for row in rows}) > 1)
    sources = {one.card.title: one.card.source for one in asked}
    return Answer(rows, axes, sources)


def _value(row: Row, axis: str) -> tuple[bool, Scalar]:
    return axis in row.configuration, row.configuration.get(axis)


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(axis for row in rows for axis in row.configuration))


def _alike(asked: Sequence[Asked]) -> list[list[int]]:
    """Return the numbers of what one process answers: equal but for batch and size of memory."""
    groups: dict[object, list[int]] = {}
    for number, one in enumerate(asked):
        others = {axis: value for axis, value in one.case.configuration.items() if axis != "batch_size"}
        info = one.card.info()
        workspace = workspace_bytes(info.kind, info.compute_capability)
        treats = (info.kind, workspace, info.compute_capability if info.kind == "rocm" else None, info.precisions)
        key = msgspec.json.encode((one.case.workload.canonical(), others, treats), order="sorted")
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def _rows(session: Session, request: RunRequest, group: Sequence[tuple[int, Asked]]) -> Iterator[tuple[int, Row]]:
    _, first = group[0]
    batches = tuple(dict.fromkeys(_batch(one.case) for _, one in group))
    limits = tuple(dict.fromkeys(limit_bytes(one.card.memory_bytes) for _, one in group))
    procedure = request.procedure
    told = tracing.told(
        session.launcher,
        MemoryRequest(
            first.case, first.card.info(), batches, limits, procedure.settings, procedure.seed, first.left_open
        ),
    )
    for number, one in group:
        yield number, _row(one, told, limits)


def _row(one: Asked, told: MemoryTold | str, limits: Sequence[int]) -> Row:
    workload, card = one.case.workload, one.card
    row = Row(str(workload.task), workload.model, card.title, card.memory_bytes, _shown(workload, one.case))
    if isinstance(told, str):
        return msgspec.structs.replace(row, why_not=told)
    wanted = _batch(one.case)
    peak = next((peak for peak in told.peaks if peak.batch_size == wanted), told.peaks[0])
    largest = told.largest[limits.index(limit_bytes(card.memory_bytes))]
    configuration = {**row.configuration, "batch_size": peak.batch_size}
    return msgspec.structs.replace(
        row, peak=peak, largest=largest, fixed=told.fixed, configuration=configuration
    )  # fmt: skip


def _shown(workload: Workload, case: Case) -> Mapping[str, Scalar]:
    """Return the axes that the memory of a step may hang on."""
    engine = registry.load("engines", str(workload.task))
    aside = ("learning_rate", "threads", *LOADER_AXES, "mode", "compile")
    return {axis: case.configuration[axis] for axis in engine.axes if axis in case.configuration and axis not in aside}


def _batch(case: Case) -> int:
    return int(case.configuration.get("batch_size") or 1)

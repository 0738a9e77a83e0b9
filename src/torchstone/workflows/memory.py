"""From a request to an Answer: Cases on cards, each followed once for all cards that treat it alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from torchstone.analysis.memory_fit import FitRow, MemoryAnswer, limit_bytes
from torchstone.config.run_file import RunRequest
from torchstone.core.cards import Card
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.case import Case, Placement, Workload, model_name
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import MemoryPrediction, MemoryRequest
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.search import Point
from torchstone.core.schema.trial import Outcome, Status
from torchstone.core.stats.peak_memory import workspace_bytes
from torchstone.execution import machine_facts, plan
from torchstone.execution.controller.observer import wait_for_answer
from torchstone.execution.controller.session import Session
from torchstone.plugins import registry
from torchstone.plugins.choices import card_of
from torchstone.plugins.machine_protocols import Launcher
from torchstone.workflows.tune.space import TuneSpace
from torchstone.workflows.tune.specification import TuneRequest, TuneSketch

_MOST_S = 600.0  # to follow all the steps of one request: seconds each, minutes for a model of a thousand layers


def trace_peaks(launcher: Launcher, request: MemoryRequest) -> MemoryPrediction | Outcome:
    """Return the peaks; how the process ended, where they are unknown.

    Raises UsageError where the user's own model or data is at fault, TorchstoneError where the process dies or hangs.
    """
    answer, ended = wait_for_answer(launcher.start(request), MemoryPrediction, _MOST_S)
    if answer is not None:
        return answer
    if ended.mistake is not None:
        raise UsageError(ended.mistake)
    outcome, model = ended.outcome, request.case.workload.model
    if outcome.status == Status.CRASHED and outcome.traceback is not None:  # by what builds the model
        raise UsageError("\n".join((f"{model} raised {outcome.message}", *outcome.traceback.splitlines()[:-1])))
    if outcome.status in (Status.CRASHED, Status.TIMED_OUT):
        raise TorchstoneError(f"{model}: its step could not be followed: {outcome.message}")
    return outcome


TASKS = ("train", "infer")
_OTHERWISE = "memory predicts train and infer only"
Tell = Callable[[str], None]


class MemoryQuestion(NamedTuple):
    """One Configuration on one card."""

    card: Card
    case: Case
    left_open: tuple[str, ...] = ()


def questions_of(request: RunRequest, cards: Sequence[Card]) -> list[MemoryQuestion]:
    """Return every Configuration of the request on every card. Raises UsageError for what is wrong with it."""
    found = []
    for workload in shapes_only(request).workloads:
        sketch = plan.sketch(workload.excluding(request.exclude))
        for card in cards:
            for configuration in sketch.configurations:
                settings = plan.on_device(configuration, card.info())
                found.append(
                    MemoryQuestion(card, Case(sketch.workload, settings, Placement(card.kind)), sketch.left_open)
                )
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


def answer_all(request: RunRequest, questions: Sequence[MemoryQuestion], tell: Tell) -> MemoryAnswer:
    """Follow what was asked about. `tell` hears what is followed next. Raises UsageError, TorchstoneError."""
    models = dict.fromkeys(one.case.workload.model for one in questions)
    groups = _alike(questions)
    found: dict[int, FitRow] = {}
    with Session(request.procedure, tuple(models)) as session:
        for group in groups:
            first = questions[group[0]]
            tell(f"{first.case.workload.task} {model_name(first.case.workload.model)}")
            found.update(_rows(session, request, [(n, questions[n]) for n in group]))
    rows = tuple(found[number] for number in range(len(questions)))
    points = [row.configuration for row in rows]
    names = dict.fromkeys(axis for point in points for axis in point)
    axes = tuple(axis for axis in names if len({(axis in point, point.get(axis)) for point in points}) > 1)
    sources = {one.card.title: one.card.source for one in questions}
    return MemoryAnswer(rows, axes, sources)


def _alike(asked: Sequence[MemoryQuestion]) -> list[list[int]]:
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


def _rows(
    session: Session, request: RunRequest, group: Sequence[tuple[int, MemoryQuestion]]
) -> Iterator[tuple[int, FitRow]]:
    _, first = group[0]
    batches = tuple(dict.fromkeys(_batch(one.case) for _, one in group))
    limits = tuple(dict.fromkeys(limit_bytes(one.card.memory_bytes) for _, one in group))
    procedure = request.procedure
    told = trace_peaks(
        session.launcher,
        MemoryRequest(
            first.case, first.card.info(), batches, limits, procedure.settings, procedure.seed, first.left_open
        ),
    )
    for number, one in group:
        yield number, _row(one, told, limits)


def _row(one: MemoryQuestion, told: MemoryPrediction | Outcome, limits: Sequence[int]) -> FitRow:
    workload, card = one.case.workload, one.card
    row = FitRow(str(workload.task), workload.model, card.title, card.memory_bytes, _shown(workload, one.case))
    if isinstance(told, Outcome):
        return msgspec.structs.replace(row, why_not=told)
    wanted = _batch(one.case)
    peak = next((peak for peak in told.peaks if peak.batch_size == wanted), told.peaks[0])
    largest = told.largest[limits.index(limit_bytes(card.memory_bytes))]
    configuration = {**row.configuration, "batch_size": peak.batch_size}
    return msgspec.structs.replace(row, peak=peak, largest=largest, fixed=told.fixed, configuration=configuration)


def _shown(workload: Workload, case: Case) -> Mapping[str, Scalar]:
    """Return the axes that the memory of a step may hang on."""
    engine = registry.load("engines", str(workload.task))
    aside = ("learning_rate", "threads", *LOADER_AXES, "mode", "compile")
    return {axis: case.configuration[axis] for axis in engine.axes if axis in case.configuration and axis not in aside}


def _batch(case: Case) -> int:
    return int(case.configuration.get("batch_size") or 1)


class CardPoints(msgspec.Struct, frozen=True):
    """The points of a tune on a card, as far as the device sees them, and what to ask of each combination of others."""

    points: tuple[Point, ...]
    questions: tuple[MemoryQuestion, ...]


def tried_on(request: TuneRequest, card: Card) -> CardPoints:
    """Return what a tune of the request would try on that card. Raises UsageError for what is wrong with it."""
    sketch = TuneSketch(request)
    info = card.info()
    spec = sketch.spec(Placement(card.kind), Machine(machine_facts.host(), (info,), {}, {}), 1)
    space = TuneSpace(spec)
    points: dict[tuple[Scalar, ...], Point] = {}
    asked: dict[tuple[Scalar, ...], MemoryQuestion] = {}
    for point in space.points:
        seen = {axis: value for axis, value in point.items() if axis not in LOADER_AXES}
        points.setdefault(tuple(seen.values()), seen)
        others = tuple(value for axis, value in seen.items() if axis != "batch_size")
        asked.setdefault(others, MemoryQuestion(card, space.case(point), sketch.sketch.left_open))
    return CardPoints(tuple(points.values()), tuple(asked.values()))


def count_that_fit(tried: CardPoints, rows: Sequence[FitRow]) -> int:
    """Return how many of the points fit, with a tenth of the memory free."""
    count = 0
    for point in tried.points:
        for row in rows:
            same = all(row.configuration.get(axis) == value for axis, value in point.items() if axis != "batch_size")
            size = point.get("batch_size", row.configuration.get("batch_size"))
            if same and row.largest is not None and int(size or 1) <= row.largest.batch_size:
                count += 1
    return count

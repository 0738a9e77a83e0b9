"""Turns what was asked for into Cases, and orders their trials in seeded, interleaved rounds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema import ranks
from torchstone.core.schema.axis import AXES, DATALOADER_AXES, EAGER, LOADER_AXES, Scalar, axis_named
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.model import DataCard, InputSpec, ModelCard, OwnData
from torchstone.core.schema.request import Condition, WorkloadRequest, effective, without
from torchstone.core.schema.run import Plan, Slot
from torchstone.execution.device_words import is_uuid, of_uuid
from torchstone.plugins import choices, registry
from torchstone.plugins.choices import EVERYBODYS, SHAPES, checked_options, has_end, with_source, with_split
from torchstone.plugins.protocols import DataSource, Engine, ModelSource

# What to do where the user's own batches are used as they come.
INSTEAD = "return the Dataset, so that torchstone can build the DataLoader"
_NATIVE_BEFORE_FP32 = ("bf16", "tf32")  # fp16 needs a loss scaler, and can diverge all the same: only who asks gets it


class Sketch(msgspec.Struct, frozen=True):
    """A checked workload with its Configurations, before it is known on which device.

    `left_open`: axes that nobody named, and that the data decides which the user's code may return (`with_own_data`).
    """

    workload: Workload
    configurations: tuple[Mapping[str, Scalar], ...]
    own: bool  # the user's own code or files: rehearsed before anything is written
    code_sha256: str | None = None  # of the user's own model file
    data: DataCard | None = None  # None: the model's own example
    left_open: tuple[str, ...] = ()


def sketch(request: WorkloadRequest) -> Sketch:
    """Check a request without torch: every name, option, axis and file. Raises UsageError naming what there is.

    Raises MissingError where the task needs a library that is not here.
    """
    if request.task not in registry.names("engines"):
        raise unknown("task", request.task, registry.names("engines"))
    engine: Engine = registry.load("engines", request.task)
    if (lacking := engine.missing()) is not None:
        raise MissingError(lacking)
    _check_runtimes(request)
    scheme, name = choices.model_source_of(request.model)
    source: ModelSource = registry.load("models", scheme)
    card = source.card(name, request.options)
    able = (*card.tasks, Task.LOAD)  # whatever a model can, its data can be loaded
    if request.task not in (*able, *((Task.LOADGEN,) if Task.INFER in able else ())):
        raise UsageError(f"{request.model} does not support task '{request.task}' (supported: {', '.join(card.tasks)})")
    data, data_card, data_options = _data(request, card)
    if data_card is not None and _wants_more_classes(data_card, card):
        # A head with as many classes as the data has, where the model may have any number.
        card = source.card(name, {**request.options, "classes": data_card.classes})
    fixed = dict(card.fixed)
    if data_card is not None and data_card.sha256 is not None:
        fixed["data_sha256"] = data_card.sha256[:16]
    if data_card is not None and data_card.classes is not None:
        fixed["data_classes"] = data_card.classes
    model = f"{scheme}:{card.name or name}"
    item = "call" if request.task == Task.CALL else card.item
    workload = Workload(Task(request.task), model, data, item, card.family, fixed, data_options)
    if card.input.kind == "own" and data_card is not None:
        # It brings a tokenizer, or its rehearsal says that it does not.
        card = msgspec.structs.replace(card, input=InputSpec("text"))
    own = card.own or (":" in data and data_card is not None and data_card.sha256 is not None)
    left_open = _left_open(request, engine) if card.input.kind == "own" and data == "example" else ()
    fed = has_end(data) and _wants_the_loader(request)
    points = _kept(request, list(_configurations(request, engine, card, fed=fed)))
    return Sketch(workload, tuple(points), own, card.code_sha256, data_card, left_open)


def _check_runtimes(request: WorkloadRequest) -> None:
    """Raise UsageError for a runtime that there is not, MissingError for one whose library is not here."""
    known = (EAGER, *registry.names("runtimes"))
    for word in map(str, request.axes.get("runtime", ())):
        if word not in known:
            raise unknown("runtime", word, known)
        if word != EAGER and (lacking := registry.load("runtimes", word).missing()) is not None:
            raise MissingError(lacking)


def _wants_the_loader(request: WorkloadRequest) -> bool:
    """Say whether the question is one that the loader belongs to, where data are real."""
    return request.fed or request.task == Task.TRAIN


def _left_open(request: WorkloadRequest, engine: Engine) -> tuple[str, ...]:
    """Return the axes that the user's own data may decide: whether there is any is known when the code has run."""
    axes = list(DATALOADER_AXES)
    if _wants_the_loader(request):
        axes.append("feed")
    return tuple(axis for axis in axes if axis in engine.axes and axis not in request.axes)


def with_own_data(sketch: Sketch, data: OwnData) -> Sketch:
    """Return a Sketch with what the user's own data decide. Raises UsageError where an axis asks for what they lack."""
    task, left_open = sketch.workload.task, sketch.left_open
    configurations = tuple(data.fill(task, one, left_open) for one in sketch.configurations)
    for one in configurations:
        if (axis := data.refuses(one)) is not None:
            raise UsageError(
                f"{sketch.workload.model}: {axis}={one[axis]} not possible: {data.why_text}, with "
                f"{axis}={data.fixed[axis]}; {INSTEAD}"
            )
    return msgspec.structs.replace(sketch, configurations=configurations, left_open=())


def first_case(sketch: Sketch, placement: Placement, machine: Machine) -> Case:
    """Return the Case of a Sketch's first Configuration: what is rehearsed."""
    device = machine.device(placement.device, placement.index)
    first = ranks.single_process(effective(sketch.configurations, placement)[0])
    return Case(sketch.workload, on_device(first, device), placement)


def _data(request: WorkloadRequest, card: ModelCard) -> tuple[str, DataCard | None, Mapping[str, Scalar]]:
    """Return the data in full, its card (None: the model's example), and its options with the split decided."""
    made = "synthetic:full" if request.task == "generate" else "synthetic"  # a prompt is as long as it was asked for
    asked = request.data or ("example" if card.input.kind == "own" else made)
    if asked == "example":
        if card.input.kind != "own":
            raise UsageError(f"data example: {request.model} returns no example batch; give --data synthetic")
        if request.data_options:
            raise UsageError(f"data example takes no option, got {', '.join(request.data_options)}")
        return "example", None, {}
    asked = with_source(asked)
    scheme, path = choices.data_source_of(asked)
    source: DataSource = registry.load("data", scheme)
    options = checked_options(asked, source, request.data_options)
    data_card = source.card(path, {name: value for name, value in options.items() if name not in EVERYBODYS})
    options = with_split(request.task, asked, data_card, options)
    if data_card.kind not in ("any", card.input.kind, *(("text",) if card.input.kind == "own" else ())):
        raise UsageError(f"data {asked} is {data_card.kind}, but {request.model} takes {card.input.kind}")
    if _wants_more_classes(data_card, card) and ("classes" not in card.fixed or "classes" in request.options):
        raise UsageError(f"data {asked} has {data_card.classes} classes, {request.model} has {card.input.classes}")
    unlabelled = data_card.kind not in ("any", "features") and data_card.classes is None
    if request.task == "train" and unlabelled and not card.input.causal and card.input.kind != "own":
        raise UsageError(
            f"data {asked} has no labels to train {request.model} on; put the items of each class in a folder"
        )
    return asked, data_card, options


def _wants_more_classes(data: DataCard, model: ModelCard) -> bool:
    has = model.input.classes
    return data.classes is not None and has is not None and data.classes > has


def _configurations(
    request: WorkloadRequest, engine: Engine, card: ModelCard, *, fed: bool
) -> Iterator[Mapping[str, Scalar]]:
    allowed = [a for a in engine.axes if card.input.kind in SHAPES.get(a, (card.input.kind,))]
    for name in request.axes:
        axis_named(name, allowed, f"task {request.task} and {request.model}")
    defaults = dict(card.defaults)
    # Who asks for one of a loader's axes means a loader: with resident batches, all their values measure the same.
    if fed or any(name in request.axes for name in LOADER_AXES):
        defaults["feed"] = "loader"
    # The user's axes lead, in the user's order: it is the order of the table's columns and rows.
    names = dict.fromkeys([*request.axes, *(name for name in allowed if not AXES[name].on_request)])
    spread = {name: request.axes.get(name) or (defaults.get(name, AXES[name].default),) for name in names}
    for point in itertools.product(*spread.values()):
        yield dict(zip(spread, point, strict=True))


def _kept(request: WorkloadRequest, points: Sequence[Mapping[str, Scalar]]) -> Sequence[Mapping[str, Scalar]]:
    try:
        return without(ranks.possible(points), request.exclude)
    except UsageError as fault:
        raise UsageError(f"{request.task} {request.model}: {fault}") from None


def place(word: str, inspected: Inspected, machine: Machine) -> Placement:
    """Return the Placement that `auto` (the first accelerator, or the CPU), `cpu`, `cuda:1`, `GPU-…`, … means here.

    Raises UsageError for what is not here, with what is; MissingError for `auto` where torch cannot use a card it has.
    """
    placement, why_not = find_placement(word, inspected, machine)
    if why_not is not None:
        have = ", ".join(f"{d.kind}:{d.index} {d.name}" for d in machine.devices)
        raise UsageError(f"{why_not}. Found: {have}")
    return placement


def find_placement(word: str, inspected: Inspected, machine: Machine) -> tuple[Placement, str | None]:
    """Return what a word means, and why that is not here (None: it is). Raises as `place`, but for what is not here."""
    if word == "auto":
        best = next((d for d in machine.devices if d.kind != "cpu"), machine.devices[0])
        if best.kind == "cpu" and inspected.unusable is not None:
            raise MissingError(f"device auto: {inspected.unusable}. --device cpu measures the CPU")
        return Placement(best.kind, best.index), None
    if is_uuid(word):
        device = of_uuid(word, inspected, machine)
        return Placement(device.kind, device.index), None
    kind, colon, number = word.partition(":")
    if kind not in (kinds := registry.names("devices")):
        raise unknown("device", word, (*kinds, "auto"))
    if colon and not number.isdigit():
        raise UsageError(f"device {word}: write {kind}:0, {kind}:1, …")
    placement = Placement(kind, int(number) if colon else 0)
    if machine.device(kind, placement.index) is not None:
        return placement, None
    why = inspected.missing.get(kind) or f"there are {sum(d.kind == kind for d in machine.devices)} of kind {kind}"
    return placement, f"device {word} not found: {why}"


def arrange(
    sketches: Sequence[Sketch],
    placements: Sequence[Placement],
    machine: Machine,
    trials: int,
    seed: int,
    first: Sequence[Condition] = (),
) -> Plan:
    """Return the Plan: every Case once, in seeded random order, then every Case again, so that drift hits all alike.

    In each round, Cases that meet the first condition of `first` come first, then those of the second, then the others.
    A machine without any device is one that is not known yet: that of a job.
    """
    cases: dict[str, Case] = {}
    for placement in placements:
        for one in sketches:
            for configuration in effective(one.configurations, placement):
                device = machine.device(placement.device, placement.index)
                case = Case(one.workload, on_device(configuration, device), placement)
                if device is not None or not machine.devices:  # what is not here is told, and not judged
                    case = ranks.case_on_ranks(case.workload, case.configuration, placement)
                if device is not None:
                    ranks.check_devices(case.placement, machine)
                cases.setdefault(case.case_id, case)
    places = [condition_rank(case.configuration, first) for case in cases.values()]
    dice = random.Random(seed)
    slots: list[Slot] = []
    for number in range(trials):
        order = list(range(len(cases)))
        dice.shuffle(order)
        order.sort(key=places.__getitem__)
        slots += [Slot(case, number) for case in order]
    return Plan(tuple(cases.values()), tuple(slots))


def on_device(configuration: Mapping[str, Scalar], device: DeviceInfo | None) -> Mapping[str, Scalar]:
    """Return a Configuration with what `precision: auto` means there, so that a Case says what is computed."""
    if configuration.get("precision") != "auto":
        return configuration
    native = device.precisions if device is not None else ()
    return {**configuration, "precision": next((word for word in _NATIVE_BEFORE_FP32 if word in native), "fp32")}


def condition_rank(configuration: Mapping[str, Scalar], first: Sequence[Condition]) -> int:
    """Return the place of the first condition that a Configuration meets; behind them all where it meets none."""
    return next((rank for rank, condition in enumerate(first) if condition.holds(configuration)), len(first))

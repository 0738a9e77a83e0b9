"""Carries out one request by its handler: sets a Case up, warms up, measures, and sends what was measured."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.fingerprints import TOLERANCE
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import (
    Brought,
    Burst,
    BurstDone,
    BurstRequest,
    BurstWord,
    CaseRequest,
    Ended,
    Entered,
    EvaluateRequest,
    Event,
    InspectRequest,
    Live,
    MemoryPrediction,
    MemoryRequest,
    NodeRequest,
    PeaksRequest,
    Progress,
    RehearseRequest,
    Request,
    Saved,
    SaveRequest,
    TrainRequest,
    TrialRequest,
    TurnsRequest,
)
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.procedure import LoadPlan, Procedure
from torchstone.core.schema.quality import AnswerCounts
from torchstone.core.schema.ranks import is_distributed
from torchstone.core.schema.trial import Outcome, Status
from torchstone.core.stats.peak_memory import largest_batch
from torchstone.execution.timing.clock import Clock, resolution_s, system_clock
from torchstone.execution.timing.loop import Instrument, Step
from torchstone.execution.timing.stopping import StoppingRule, WarmUp
from torchstone.execution.worker.auto_settings import brought, settle
from torchstone.execution.worker.collector import Collector, end_warm_up, outcome_by_loss
from torchstone.execution.worker.outcome import TrialEnd, ended_by
from torchstone.execution.worker.pinning import Pinning
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.profiling import attention_facts, is_compiled
from torchstone.execution.worker.ranks.group import ALONE, Alone, compare_communication
from torchstone.execution.worker.setup import Setup, dataset_items, kept_to, load_model, open_device, open_samples
from torchstone.execution.worker.train_loop import evaluate, fit_model
from torchstone.execution.worker.turns import (
    ANATOMY,
    longer_beside_others,
    measure_anatomy,
    measure_window,
    take_turns,
    turn_of,
    warm_up_plan,
)
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device, Stopwatch, Vendor
from torchstone.plugins.protocols import Batches, Engine, Prepared, Samples, SavedFile, fixed_axes

_ROWS = 2  # items that are really drawn: of them only shapes and types count
_SAME_SHAPES = ("pretrained", "folder")  # weights that random ones stand in for


def foretell(request: MemoryRequest) -> MemoryPrediction:
    """Return what was asked. Raises Unsupported, with the reason, where the model cannot be followed without data."""
    device = _Pretended(request) if request.device is not None else open_device(request.case)
    try:
        return _predict_peaks(request, device, _shapes_of(request.case))
    except AssertionError:  # a tensor that is no parameter and no buffer was left without a device: load it all
        return _predict_peaks(request, device, load_model(request.case))


def _predict_peaks(request: MemoryRequest, device: Device, model: LoadedModel) -> MemoryPrediction:
    own = brought(model, request.case)
    case, _ = settle(own.filled(request.case, request.left_open), model, device, request.settings)
    engine: Engine = registry.load("engines", str(case.workload.task))
    drawn = _sample_batch(engine, case, model, request.seed)
    known: dict[int, PeakMemory] = {}

    def peak(batch: int) -> PeakMemory:
        if batch not in known:
            one = msgspec.structs.replace(case, configuration={**case.configuration, "batch_size": batch})
            known[batch] = engine.peak_memory(one, model, drawn, device)
        return known[batch]

    if "batch_size" in own.fixed:
        only = peak(int(own.fixed["batch_size"] or 1))
        within = [only if only.allocated_bytes <= limit else None for limit in request.limits_bytes]
        return MemoryPrediction((only,), tuple(within), own.why)
    own_size = "batch_size" in request.left_open  # nobody named one: that of the example
    batches = (int(case.configuration["batch_size"] or 1),) if own_size else request.batches
    peaks = tuple(peak(batch) for batch in batches)
    start = max(batches, default=1)
    seen = {batch: float(one.allocated_bytes) for batch, one in known.items()}
    found = [largest_batch(lambda n: peak(n).allocated_bytes, limit, start, seen) for limit in request.limits_bytes]
    return MemoryPrediction(peaks, tuple(None if batch is None else peak(batch) for batch in found))


def _shapes_of(case: Case) -> LoadedModel:
    """Return the model without its data where that can be, else as it is."""
    import torch

    weights = case.workload.fixed.get("weights")
    if weights in _SAME_SHAPES:
        fixed: Mapping[str, Scalar] = {**case.workload.fixed, "weights": "random"}
        case = msgspec.structs.replace(case, workload=msgspec.structs.replace(case.workload, fixed=fixed))
    elif weights != "random":
        return load_model(case)
    try:
        with torch.device("meta"):
            return load_model(case)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):  # it looks into its weights
        return load_model(case)


def _sample_batch(engine: Engine, case: Case, model: LoadedModel, seed: int) -> Mapping[str, Any]:
    """Return a few items as one batch on the CPU."""
    few = {**case.configuration, "batch_size": _ROWS, "feed": "resident", "num_workers": 0, "channels_last": False}
    few.update(fixed_axes(model.samples))  # batches that come as they are
    small = msgspec.structs.replace(case, configuration={k: v for k, v in few.items() if k in case.configuration})
    batches = engine.open_batches(small, model, open_samples(case, model, seed), _HostMemory(), seed)
    try:
        found: Mapping[str, Any] = batches.next().tensors
    finally:
        batches.close()
    return found


class _HostMemory:
    """Where items are drawn. Of a Device it has what a feed asks for."""

    def __init__(self) -> None:
        import torch

        self.torch_device: Any = torch.device("cpu")

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def stopwatch(self) -> Stopwatch:
        """Nothing is timed here."""
        raise Unsupported("nothing can be timed without the device")

    def memory(self) -> Mapping[str, int]:
        """Nothing is allocated here."""
        return {}

    def objection(self, axis: str, value: Scalar) -> str | None:
        """Object to nothing."""
        return None

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        """Prefer nothing."""
        return None


class _Pretended(_HostMemory):
    """A device that is not here: it objects and prefers as its kind does.

    Intel's and Apple's are followed as CUDA, too, which stands for them in what a step allocates, but for their own
    attention kernels, which are asked for.
    """

    def __init__(self, request: MemoryRequest) -> None:
        super().__init__()
        vendor: Vendor = registry.load("devices", request.case.placement.device)
        if request.device is None:
            raise Unsupported(f"{request.case.placement}: the properties of an absent device are not known")
        self._device = vendor.pretend(request.device)
        self.capability = request.device.compute_capability

    def objection(self, axis: str, value: Scalar) -> str | None:
        """Object as the device would, but for what only the machine around it can tell."""
        return None if axis in ("compile", "pin_memory") else self._device.objection(axis, value)

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        """Prefer what the device would."""
        return None if axis == "threads" else self._device.preference(axis, configuration)


PRODUCTS, COPY, TO_DEVICE = "products", "memory", "to device"
_SIZE = {"cpu": 512}  # of square matrices: 1 MiB each on a core, 32 MiB and more on a card
_SIZE_ELSEWHERE = 4096
_COPIED_BYTES = {"cpu": 64 << 20}
_COPIED_BYTES_ELSEWHERE = 512 << 20
_SENT_BYTES = 128 << 20
_BLOCK_S = 0.01  # between two looks at the clock
_Work = tuple[str, float, Callable[[], object]]


def bursts(request: BurstRequest, line: EventPipe) -> None:
    """Carry out a BurstRequest. Raises Unsupported if there is no such device."""
    import torch

    if request.cores:
        os.sched_setaffinity(0, request.cores)
        torch.set_num_threads(len(request.cores))
    vendor: Vendor = registry.load("devices", request.placement.device)
    device = vendor.open(request.placement.index)
    works = list(_works(torch, device))
    for _, _, work in works:  # chooses kernels, and touches the memory
        work()
    device.synchronize()
    line.send(Entered("ready", system_clock()))
    while data := line.receive():
        word = msgspec.json.decode(data, type=BurstWord)
        if not isinstance(word, Burst):
            return
        rates: Mapping[str, float] = {
            name: amount * _each_second(work, word.seconds, device, system_clock) for name, amount, work in works
        }
        line.send(BurstDone(rates))


def _works(torch: Any, device: Device) -> Iterator[_Work]:
    """Yield name, amount (FLOP or bytes) and call of each kind of work."""
    kind, there = device.torch_device.type, device.torch_device
    size = _SIZE.get(kind, _SIZE_ELSEWHERE)
    dtype = torch.float32 if kind == "cpu" else torch.bfloat16
    a, b = (torch.randn(size, size, device=there).to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    yield PRODUCTS, 2.0 * size**3, lambda: torch.mm(a, b, out=product)
    count = _COPIED_BYTES.get(kind, _COPIED_BYTES_ELSEWHERE)
    source, copy = (torch.zeros(count, dtype=torch.uint8, device=there) for _ in range(2))
    yield COPY, 2.0 * count, lambda: copy.copy_(source)
    if kind != "cpu":
        here = _pinned(torch)
        received = torch.empty(_SENT_BYTES, dtype=torch.uint8, device=there)
        yield TO_DEVICE, float(_SENT_BYTES), lambda: received.copy_(here, non_blocking=True)


def _pinned(torch: Any) -> Any:
    try:
        return torch.zeros(_SENT_BYTES, dtype=torch.uint8).pin_memory()
    except RuntimeError:  # a limit on locked pages, or a device that shares the host's memory
        return torch.zeros(_SENT_BYTES, dtype=torch.uint8)


def _each_second(work: Callable[[], object], seconds: float, device: Device, clock: Clock) -> float:
    """Return how often a second the work is done, issued in blocks that end with the device idle."""
    begin_s = clock()
    work()
    device.synchronize()
    block = max(1, min(1000, int(_BLOCK_S / max(clock() - begin_s, 1e-6))))
    done, begin_s = 0, clock()
    while done == 0 or clock() - begin_s < seconds:
        for _ in range(block):
            work()
        device.synchronize()
        done += block
    return done / max(clock() - begin_s, 1e-9)


Send = Callable[[Event], None]
_LOOKED_AT_S = 1.0  # a longer step is not done once more to see which kernels it runs
_DONE = Ended(Outcome(Status.OK))


def carry_out(request: Request, line: EventPipe) -> None:
    """Do what is asked and send events; the last is always Ended, whatever the user's code raises."""
    import torch  # noqa: F401  a process without it is not live: a new interpreter takes seconds for this

    line.send(Live())
    try:
        end = HANDLERS[type(request)](request, line)
    except BaseException as error:
        end = ended_by(error)
    line.send(end)


def _inspect(_request: InspectRequest, line: EventPipe) -> Ended:
    from torchstone.execution.inspection import inspect

    line.send(inspect())
    return _DONE


def _peaks(request: PeaksRequest, line: EventPipe) -> Ended:
    from torchstone.execution.worker.peaks import measure_peaks

    measure_peaks(request, line.send)
    return _DONE


def _burst(request: BurstRequest, line: EventPipe) -> Ended:

    bursts(request, line)
    return _DONE


def _memory(request: MemoryRequest, line: EventPipe) -> Ended:

    line.send(foretell(request))
    return _DONE


def _trial(request: TrialRequest, line: EventPipe) -> Ended:
    if not is_distributed(request.case.configuration):
        return Ended(_measure(request, line, ALONE))
    if request.host_profile:
        _refuse_ranks(request.case, "diagnose")
    from torchstone.execution.worker.ranks.launching import launch

    return launch(request, None, line, _measure)


def _node(request: NodeRequest, line: EventPipe) -> Ended:
    from torchstone.execution.worker.ranks.launching import launch

    ending = TrialEnd()  # only this node's kernel knows whether it killed for memory
    ended = launch(request.trial, request.meeting, line, _measure)
    return msgspec.structs.replace(ended, outcome=ending.refined(ended.outcome))


def _rehearse(request: RehearseRequest, line: EventPipe) -> Ended:
    def filled(case: Case, model: LoadedModel) -> Case:
        line.send(Brought(own := brought(model, case)))
        return own.filled(case, request.left_open)

    pinning = _pinning_for(request)
    setup = _set_up(request, line.send, pinning, filled=filled)
    with _fed(setup, request.procedure.seed, pinning) as (batches, _):
        line.send(Entered("warm-up", system_clock()))
        instrument = Instrument(setup.prepared.step, batches.next, setup.device.synchronize, system_clock)
        instrument.warm_up(WarmUp(0, 0.0, batches.queue))
    return Ended(setup.tally.outcome())


def _fit(request: TrainRequest, line: EventPipe) -> Ended:
    _refuse_ranks(request.case, "train")
    pinning = _pinning_for(request)
    setup = _set_up(request, line.send, pinning)
    pinning.bind()
    fit_model(request, setup, line.send)
    return Ended(setup.tally.outcome())


def _evaluate(request: EvaluateRequest, line: EventPipe) -> Ended:
    _refuse_ranks(request.case, "evaluate")
    evaluate(request, _set_up(request, line.send, _pinning_for(request)), line.send)
    return _DONE


def _save(request: SaveRequest, line: EventPipe) -> Ended:
    _refuse_ranks(request.case, "--save-model")
    setup = _set_up(request, line.send, _pinning_for(request))
    seed, file = request.procedure.seed, SavedFile(Path(request.folder), request.path)
    with _feed(setup, seed) as (batches, samples):
        line.send(Saved(tuple(setup.prepared.save(batches.next, samples, seed, file))))
    return _DONE


def _turns(request: TurnsRequest, line: EventPipe) -> Ended:
    _refuse_ranks(request.case, "ab")
    shifted = bytearray(request.shift_bytes)
    pinning = _pinning_for(request)
    setup = _set_up(request, line.send, pinning)
    with _fed(setup, request.procedure.seed, pinning) as (batches, _):
        take_turns(request, setup, batches, line, pinning)
    del shifted
    return Ended(setup.tally.outcome())


HANDLERS: Mapping[type[Request], Callable[[Any, EventPipe], Ended]] = {
    TrialRequest: _trial,
    NodeRequest: _node,
    RehearseRequest: _rehearse,
    TrainRequest: _fit,
    EvaluateRequest: _evaluate,
    SaveRequest: _save,
    TurnsRequest: _turns,
    InspectRequest: _inspect,
    PeaksRequest: _peaks,
    MemoryRequest: _memory,
    BurstRequest: _burst,
}


def _refuse_ranks(case: Case, command: str) -> None:
    if is_distributed(case.configuration):
        raise Unsupported(f"torchstone {command} works in one process: leave out world_size and strategy")


def _measure(request: TrialRequest, line: EventPipe, ranks: Alone) -> Outcome:
    """Build what the Case says, measure it, send what was measured, and return how that went."""
    pinning = _pinning_for(request)
    setup = _set_up(request, line.send, pinning, ranks)
    # Its items are the same in every trial of a Case.
    with _fed(setup, request.procedure.seed, pinning, compare=request.number == 0) as (batches, samples):
        return measure_prepared(request, setup, batches, line.send, ranks, samples)


def _pinning_for(request: CaseRequest) -> Pinning:
    pinned = request.procedure.pin_threads and request.procedure.cpu_affinity is None
    return Pinning(wanted=bool(pinned) and request.case.placement.device == "cpu")


def _set_up(
    request: CaseRequest,
    send: Send,
    pinning: Pinning,
    ranks: Alone = ALONE,
    *,
    filled: Callable[[Case, LoadedModel], Case] = lambda case, _: case,
) -> Setup:
    """Build what the Case says. `filled`: the Case with what the data of its loaded model decides."""
    case, procedure = request.case, request.procedure
    _seed(procedure.seed)
    tally = Collector(case)
    tally.at_the_end = pinning.facts
    send(Entered("building", system_clock()))
    began_s = system_clock()
    device = open_device(case)
    if procedure.cpu_affinity is not None:
        tally.facts.cpu_affinity = kept_to(procedure.cpu_affinity, case.placement)
    engine: Engine = registry.load("engines", str(case.workload.task))
    model = load_model(case)
    case, settings = settle(filled(case, model), model, device, procedure.settings)
    prepared: Any = engine.prepare(case, model, device)
    device.synchronize()
    tally.setup("model_load_time_s", system_clock() - began_s)
    tally.add(model.facts, prepared.facts, Facts(settings=settings), ranks.facts)
    if ranks.rank > 0:  # the weights are the same in all ranks; what is random in a step is not
        _seed(procedure.seed + ranks.rank)
    return Setup(case, engine, model, prepared, device, tally, began_s)


@contextlib.contextmanager
def _feed(setup: Setup, seed: int) -> Iterator[tuple[Batches, Samples | None]]:
    """Open the feed of a set-up Case, and close it at the end; with its items, where they are real and counted."""
    case, model = setup.case, setup.model
    samples = open_samples(case, model, seed)
    items = dataset_items(case, samples, own=model.samples is not None)
    setup.tally.facts.dataset_items = items
    batches = setup.engine.open_batches(case, model, samples, setup.device, seed)
    try:
        yield batches, samples if items is not None else None
    finally:
        batches.close()


@contextlib.contextmanager
def _fed(
    setup: Setup, seed: int, pinning: Pinning, *, compare: bool = False
) -> Iterator[tuple[Batches, Samples | None]]:
    """Open the feed of a set-up Case, built with it. `compare`: what was built, by its answers to real items."""
    with _feed(setup, seed) as (batches, samples):
        built = setup.prepared.build(batches.next, samples, seed)
        for metric, value in built.items():
            setup.tally.setup(metric, value)
        # What computes the same needs no half a minute of comparing classes.
        if compare and samples is not None and built.get("relative_output_error", 0.0) > TOLERANCE:
            setup.tally.add(Facts(answers=setup.prepared.compare(samples, seed)))
        setup.tally.add(setup.prepared.facts)
        pinning.bind()
        yield batches, samples


def measure_prepared(
    request: TrialRequest,
    setup: Setup,
    batches: Batches,
    send: Send,
    ranks: Alone = ALONE,
    samples: Samples | None = None,
) -> Outcome:
    """Warm up and measure every window of a ready model; send what was measured, return how it went (of all ranks).

    `samples`: real items, by which another precision is compared with fp32.
    """
    case, procedure = setup.case, request.procedure
    engine, prepared, device, tally = setup.engine, setup.prepared, setup.device, setup.tally
    stage = "warm-up"
    planned = procedure.iterations

    def listen(steps: int, elapsed_s: float, step_s: float) -> None:
        send(Progress(stage, steps, elapsed_s, step_s, planned))

    send(Entered(stage, system_clock()))
    step = _step_of(prepared, procedure, tally)
    instrument = Instrument(step, batches.next, device.synchronize, system_clock, listen)
    plan = warm_up_plan(procedure, batches.queue, case.placement.device)
    first_s, warm_s = instrument.warm_up(ranks.warm_up(plan))
    tally.setup("first_step_time_s", first_s)
    tally.warmed_up(warm_s, settled=plan.settled)
    end_warm_up(device, tally)
    ranks.settle(pinned=bool(procedure.pin_threads))
    step_s = ranks.agreed(median(warm_s[-9:] or [first_s]))
    before, turn = resource.getrusage(resource.RUSAGE_SELF), turn_of(batches, case)
    goes_on: Callable[[StoppingRule], StoppingRule] = lambda rule: rule
    if setup.began_s is not None:
        goes_on = longer_beside_others(case, procedure, batches.queue, system_clock() - setup.began_s)
    for stage in engine.windows(case.configuration):
        send(Entered(stage, system_clock(), measures=True))
        prepared.enter(stage)
        if prepared.is_driven:
            # Replicates differ in when queries arrive, or intervals would know nothing of that.
            load = LoadPlan(procedure.budget_s, 1000 * procedure.seed + request.number, step_s)
            tally.load(stage, prepared.drive(batches, load, listen))
            continue
        window = measure_window(stage, instrument, device, procedure, turn, tally, step_s, ranks, goes_on)
    tally.usage(before, resource.getrusage(resource.RUSAGE_SELF))
    for metric, value in device.memory().items():
        tally.steady(metric, [value])
    for metric, values in prepared.results().items():
        tally.steady(metric, values)
    if procedure.phases and not prepared.is_driven:
        last, stage = stage, ANATOMY
        send(Entered(stage, system_clock(), measures=True))
        measure_anatomy(last, window, instrument, device, procedure, tally, turn, ranks.agreed)
    if prepared.replicas is not None:
        tally.add(prepared.replicas.facts())
        if ranks.size > 1:
            compare_communication(request, setup, step, step_s, batches, prepared.replicas, ranks, send)
    if request.host_profile:
        _look_at_host(step, batches, device, prepared, procedure, send)
    send(Entered("counting", system_clock()))
    if procedure.count_flops:
        _count(step, step_s, batches, prepared, device, case, tally)
    if request.trace_path is not None:
        alone = ranks.size == 1
        tally.facts.trace = _traced(step, batches, device, request.trace_path) if alone else None
    if not prepared.is_driven:
        _compare_precision(setup, batches, samples if request.number == 0 else None, procedure.seed)
    tally.left_out(batches.unreadable)
    tally.facts.clock_resolution_s = resolution_s(system_clock)
    if (measured := ranks.joined(tally.measured())) is None:
        return Outcome(Status.OK)
    send(measured)
    return outcome_by_loss(measured.measurements)


def _compare_precision(setup: Setup, batches: Batches, samples: Samples | None, seed: int) -> None:
    """Add how far answers are from those in fp32: behind the windows, as fp32 needs memory and time of its own."""
    prepared, tally = setup.prepared, setup.tally
    try:
        for metric, value in (found := prepared.compare_precision(batches.next)).items():
            tally.setup(metric, value)
        if samples is not None and found.get("relative_output_error", 0.0) > TOLERANCE:
            tally.add(Facts(answers=prepared.compare(samples, seed)))
    except Exception:  # no memory for fp32, shapes that depend on values, NaN: nothing is shown
        tally.add(Facts(answers=AnswerCounts(0, 0)))


def _step_of(prepared: Prepared, procedure: Procedure, tally: Collector) -> Step:
    """Return the step, in NVTX ranges where these are asked for."""
    if not procedure.nvtx:
        return prepared.step
    from torchstone.execution.worker.profiling import with_nvtx

    step, tally.facts.nvtx = with_nvtx(prepared.step)
    return step


def _count(
    step: Step, step_s: float, batches: Batches, prepared: Prepared, device: Device, case: Case, tally: Collector
) -> None:
    """Count what a step needs, and on an accelerator look which attention it runs, where one more step costs little."""
    tally.counted(prepared.count(batches.next()))
    if "sdpa" in case.configuration and case.placement.device != "cpu" and step_s <= _LOOKED_AT_S:
        compiles = case.configuration.get("compile", "off") not in ("off", None)
        tally.add(attention_facts(step, batches.next, device, compiled=compiles or is_compiled(prepared)))


def _look_at_host(
    step: Step, batches: Batches, device: Device, prepared: Prepared, procedure: Procedure, send: Send
) -> None:
    from torchstone.execution.worker.profiling import profile_steps

    send(Entered("host profile", system_clock(), measures=True))
    send(profile_steps(step, batches.next, device, prepared, 1.5 * procedure.budget_s))


def _traced(step: Step, batches: Batches, device: Device, path: str) -> str | None:
    from torchstone.execution.worker.profiling import trace

    return trace(step, batches.next, device, path)


def _seed(seed: int) -> None:
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)

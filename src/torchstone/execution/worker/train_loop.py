"""The training loop: epochs with timed steps, each validated and saved before the next starts."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import resource
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, Unsupported, UsageError
from torchstone.core.own_files import replacing
from torchstone.core.schema.axis import EIGHT_BIT
from torchstone.core.schema.case import Case
from torchstone.core.schema.message import Entered, EvaluateRequest, Event, Progress, TrainRequest
from torchstone.core.schema.model import Batch, InputSpec, LoadedModel
from torchstone.core.schema.training import EpochEnded, Evaluated, Evaluation, Fit, Quality
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Instrument
from torchstone.execution.timing.stopping import FixedCount
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.setup import Setup, SetupPart, limited, open_samples, open_view, view_of
from torchstone.plugins.choices import has_end, tokenizer_in
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Mark, Samples, Trainable

# What is left of the learning rate at a share of the way from the end of its rise to the end of the training.
_FALLS: Mapping[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 * (1.0 + math.cos(math.pi * share)),
}


def schedule_of(optimizer: Any, fit: Fit, steps: int) -> Any:
    """Return torch's scheduler, to be stepped after every optimizer step; `steps`: of the whole training."""
    from torch.optim.lr_scheduler import LambdaLR

    return LambdaLR(optimizer, lambda step: factor(fit, step, steps))


def factor(fit: Fit, step: int, steps: int) -> float:
    """Return by what the learning rate is multiplied at a step, counted from 0."""
    rise = round(fit.warmup_share * steps)
    if step < rise:
        return (step + 1) / rise
    return _FALLS[fit.schedule](min(1.0, (step - rise) / max(1, steps - rise)))


# A training on disk: the weights after each epoch, and the state that lets it go on as if it had never been cut.
#
# All of it is safetensors: what lies in a folder may come from anyone, and nothing there is unpickled. Files are
# written beside their place and moved, so that a full disk or a kill leaves the one before.

STATE = "training_state.safetensors"
_META = "training"
_LARGEST_STATE_BYTES = 1 << 26  # of what is not tensors: the times of an epoch's batches, mostly


def checkpoint_name(epoch: int) -> str:
    """Return the name of the weights after an epoch."""
    return f"checkpoint_epoch_{epoch}.safetensors"


def save_weights(module: Any, file: Path) -> None:
    """Write the weights, those shared by several layers once. Raises OSError."""
    library = _library()
    _moved(file, lambda beside: library.save_model(module, str(beside)))


def load_weights(module: Any, file: Path) -> None:
    """Read weights into a module. Raises UsageError for a file that is none, or of another model, naming tensors."""
    library = _library()
    try:
        library.load_model(module, str(file), strict=True)
    except RuntimeError as error:  # missing, unexpected, or of another shape: one tensor a line
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(f"{file}: weights of a different model: {' '.join(lines)[:400]}") from error
    except FileNotFoundError as error:
        raise UsageError(f"{file}: no such file") from error
    except Exception as error:  # safetensors' own error for a file that is cut off or none
        raise UsageError(f"{file}: cannot be read as safetensors: {str(error).splitlines()[0][:200]}") from error


def save_state(prepared: Trainable, schedule: Any, progress: Mapping[str, Any], file: Path) -> None:
    """Write everything but the weights: optimizer, scaler, schedule, random generators, and how far it is."""
    import torch

    tensors: dict[str, Any] = {"generator/cpu": torch.get_rng_state()}
    # Each accelerator has random numbers of its own, as dropout draws them.
    tensors.update({f"generator/{kind}": module.get_rng_state() for kind, module in awake()})
    optimizer = prepared.optimizer.state_dict()
    plain: dict[str, dict[str, Any]] = {}
    for number, values in optimizer["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer/{number}/{name}"] = value.detach().cpu().contiguous()
            else:
                plain.setdefault(str(number), {})[name] = value
    told = {
        "progress": dict(progress),
        "groups": optimizer["param_groups"],
        "plain": plain,
        "schedule": schedule.state_dict(),
        "python": random.getstate(),
        "scaler": prepared.scaler.state_dict() if prepared.scaler is not None else None,
    }
    library = _library()
    _moved(file, lambda beside: library.save_file(tensors, str(beside), metadata={_META: json.dumps(told)}))


def load_state(prepared: Trainable, schedule: Any, file: Path) -> Mapping[str, Any]:
    """Put everything back, and return how far it was. Raises UsageError for a file that is not of this training."""
    import torch
    from safetensors import safe_open

    _library()
    try:
        with safe_open(str(file), framework="pt") as opened:
            text = (opened.metadata() or {}).get(_META, "")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  not a mapping
        if len(text) > _LARGEST_STATE_BYTES:
            raise UsageError(f"{file}: its metadata is too long for a training checkpoint")
        told = json.loads(text)
        state: dict[int, dict[str, Any]] = {int(n): dict(values) for n, values in told["plain"].items()}
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "optimizer":
                number, _, field = rest.partition("/")
                state.setdefault(int(number), {})[field] = value
        prepared.optimizer.load_state_dict({"state": state, "param_groups": told["groups"]})
        _lay_out(prepared.optimizer)
        schedule.load_state_dict(told["schedule"])
        if prepared.scaler is not None:
            prepared.scaler.load_state_dict(told["scaler"])
        version, numbers, gauss = told["python"]
        random.setstate((version, tuple(numbers), gauss))
        torch.set_rng_state(tensors["generator/cpu"])
        for kind, module in awake():
            if f"generator/{kind}" in tensors:
                module.set_rng_state(tensors[f"generator/{kind}"])
    except UsageError:
        raise
    except Exception as error:  # whatever is wrong in a file from outside: none of it is this training's state
        raise UsageError(f"{file}: not a checkpoint of this training: {str(error).splitlines()[0][:200]}") from error
    return dict(told["progress"])


def _lay_out(optimizer: Any) -> None:
    """Give each state the memory layout of its parameter: fused kernels walk both as they lie, and NHWC differs."""
    import torch

    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            # The count of steps stays where torch has put it: for a weight that is one number, its shape is the same.
            if isinstance(value, torch.Tensor) and value.dim() and value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _moved(file: Path, write: Any) -> None:
    with replacing(file) as beside:
        write(beside)
        with beside.open("rb") as written:
            os.fsync(written.fileno())


def _library() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingError("train: needs safetensors: pip install 'torchstone[models]'") from error
    return safetensors.torch


Tell = Callable[[Any, Any], None]  # labels and probabilities (items × classes) of a batch, on the CPU
Timed = Callable[[float], None]  # seconds of a batch until its answers are read


def judge_model(
    prepared: Trainable, batches: Batches, spec: InputSpec, tell: Tell | None = None, timed: Timed | None = None
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
                if tell is not None:
                    tell(batch.tensors["labels"], probabilities)
            if scores is None or spec.kind == "own":
                loss = prepared.loss_of(batch)
            if timed is not None:
                timed(system_clock() - began_s)
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


_LEAST_HELD_OUT = 2


class FitData(msgspec.Struct):
    """`training` is None for a model's example batch. `has_end`: there are epochs of it.

    `validation` is None without; `again`: training items without random changes, as many at most.
    """

    training: Samples | None
    has_end: bool = False
    validation: Samples | None = None
    again: Samples | None = None


def open_fit_data(case: Case, model: LoadedModel, fit: Fit, seed: int) -> FitData:
    """Open the data of a training. Raises Unsupported where too little is left to hold out.

    Data with a split for validation (or, lacking that, for testing) is judged on it. Of data in one piece, a user's own
    among it, a share is drawn by the seed, of each class alike where items tell their class.
    """
    if not has_end(case.workload.data):
        samples = open_samples(case, model, seed)
        if samples is None or samples is not model.samples or not hasattr(samples, "__getitem__"):
            return FitData(samples)
        training = plain = samples
    else:
        told = case.workload.data_options.get("split")
        view = view_of(case, model, seed, str(told) if told is not None else None, augment=fit.augment)
        whole = open_view(case, view)
        training = limited(whole, case, seed)
        tokenizer = getattr(whole, "tokenizer", None) or model.tokenizer
        view = msgspec.structs.replace(view, augment=False, tokenizer=tokenizer)
        plain = limited(open_view(case, view), case, seed) if fit.augment else training
        if fit.validation_split is not None:
            validation = open_view(case, msgspec.structs.replace(view, split=fit.validation_split))
            return FitData(
                training, True, validation, SetupPart(plain, _some(range(len(plain)), len(validation), seed))
            )
    kept, held_out = divided(plain, fit.validation, seed)
    again = SetupPart(plain, _some(kept, len(held_out), seed))
    return FitData(SetupPart(training, kept), True, SetupPart(plain, held_out), again)


def divided(samples: Samples, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers to learn from and to hold out, each in order."""
    import torch

    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    by_class: dict[int | None, list[int]] = defaultdict(list)
    label_of = getattr(samples, "label", None)  # reading every item only for its label would take an epoch
    for number in order:
        by_class[label_of(number) if label_of is not None else None].append(number)
    held_out = sorted(n for numbers in by_class.values() for n in numbers[: round(share * len(numbers))])
    if len(held_out) < _LEAST_HELD_OUT:
        raise Unsupported(f"validation={share:g} of {len(samples)} items holds out {len(held_out)}; at least 2 needed")
    out = set(held_out)
    return [number for number in range(len(samples)) if number not in out], held_out


def _some(numbers: Sequence[int], most: int, seed: int) -> list[int]:
    import torch

    drawn = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed + 1)).tolist()
    return sorted(numbers[n] for n in drawn[:most])


COLUMNS = ("item", "label", "prediction", "confidence")
_DIGITS = 6


def evaluate(request: EvaluateRequest, setup: Setup, send: Callable[[Event], None]) -> None:
    """Do it, and send a Judged. Raises UsageError if weights, tokenizer or data are not of this model."""
    case, seed, asked = setup.case, request.procedure.seed, request.evaluation
    prepared: Trainable = setup.prepared
    model = setup.model
    load_weights(prepared.module, Path(asked.weights))
    samples = _samples(case, asked, model, seed)
    if len(samples) == 0:
        raise UsageError(f"data {case.workload.data}: no items to evaluate on")
    send(Entered("evaluating", system_clock()))
    times_s: list[float] = []
    batches = prepared.open_whole(samples)
    try:
        with replacing(Path(asked.predictions)) as beside, beside.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            quality = judge_model(prepared, batches, model.input, _PredictionWriter(rows), times_s.append)
    finally:
        batches.close()
    if batches.unreadable:
        where, why = next(iter(batches.unreadable.items()))
        raise UsageError(f"{where}: {why}; predictions are numbered by item, so no item can be skipped")
    send(Evaluated(quality, asked.labels, tuple(times_s)))


class _PredictionWriter:
    """Writes a row an item: its number, its label, the answer, and how sure the model is of it."""

    def __init__(self, rows: Any) -> None:
        self._rows, self._number = rows, 0

    def __call__(self, labels: Any, probabilities: Any) -> None:
        sure, answers = probabilities.max(dim=1)
        for label, answer, share in zip(labels.tolist(), answers.tolist(), sure.tolist(), strict=True):
            self._rows.writerow((self._number, label, answer, round(share, _DIGITS)))
            self._number += 1


def _samples(case: Case, asked: Evaluation, model: LoadedModel, seed: int) -> Samples:
    """Open the data as the training saw it: with its tokenizer and its classes, without random changes."""
    tokenizer = model.tokenizer
    if asked.tokenizer is not None and tokenizer is None:
        tokenizer = tokenizer_in(Path(asked.tokenizer))
    view = msgspec.structs.replace(view_of(case, model, seed, asked.split, labels=asked.labels), tokenizer=tokenizer)
    samples = limited(open_view(case, view), case, seed)
    if asked.held_out is None:
        return samples

    return SetupPart(samples, divided(samples, asked.held_out, seed)[1])


Send = Callable[[Event], None]
TOKENIZER = "tokenizer.json"


class Far(msgspec.Struct):
    """How far a training is: epochs done, the lowest that an epoch was judged by, and which epoch that was.

    Epochs are judged by their error rate where items have classes (the earlier of two that are equal), by their loss
    elsewhere: held out, or of their steps where nothing is.

    `last` is sent again when a training goes on: a controller that was killed may not have written it down.
    """

    epochs: int = 0
    lowest: float = math.inf
    best: int = 0
    last: EpochEnded | None = None


def fit_model(request: TrainRequest, setup: Setup, send: Send) -> None:
    """Train as the Fit says; send each epoch as it ends, then what all of them measured.

    Raises Unsupported if the data makes no epoch, UsageError if what lies in the folder is not of this training.
    """
    case, procedure, fit = setup.case, request.procedure, request.fit
    prepared: Trainable = setup.prepared
    model, device, tally = setup.model, setup.device, setup.tally
    if case.configuration["optimizer"] in EIGHT_BIT:
        raise Unsupported(f"optimizer={case.configuration['optimizer']}: a training cannot save its state; adamw")
    data = open_fit_data(case, model, fit, procedure.seed)
    steps = steps_in_an_epoch(case, data, procedure.iterations)
    tally.facts.dataset_items = len(data.training) if data.has_end and data.training is not None else None
    tally.facts.validation_items = len(data.validation) if data.validation is not None else None
    batches = setup.engine.open_batches(case, model, data.training, device, procedure.seed)
    before = resource.getrusage(resource.RUSAGE_SELF)
    try:
        training = _EpochLoop(fit, steps, procedure.epochs or 1, prepared, model, data, batches, device)
        training.go(send, tally)
    finally:
        batches.close()
    tally.usage(before, resource.getrusage(resource.RUSAGE_SELF))
    for metric, value in device.memory().items():
        tally.steady(metric, [value])
    for metric, values in prepared.results().items():
        tally.steady(metric, values)
    tally.left_out(batches.unreadable)
    send(tally.measured())


def steps_in_an_epoch(case: Case, data: FitData, asked: int | None) -> int:
    """Return the optimizer steps of an epoch: those asked for, or all whole ones of whole batches.

    Raises Unsupported where there is no end to the data, or too little of it.
    """
    size, accumulation = (int(case.configuration.get(name) or 1) for name in ("batch_size", "grad_accumulation"))
    if asked is not None:
        return max(2, asked)
    if not data.has_end or data.training is None:
        raise Unsupported(f"data {case.workload.data} is endless and has no epochs; give --data or --steps N")
    items = len(data.training)
    steps = items // size // accumulation
    if steps < 2:
        each = f"{size} × {accumulation}" if accumulation > 1 else str(size)
        raise Unsupported(f"{items} items make {steps} steps of {each}; an epoch needs at least 2")
    return steps


def _worth(loss: float, validation: Quality | None) -> float:
    """Return what an epoch is judged by; less is better."""
    if validation is None:
        return loss
    return validation.loss if validation.accuracy is None else 1.0 - validation.accuracy


class _EpochLoop:
    """A training between its epochs."""

    def __init__(
        self,
        fit: Fit,
        steps: int,
        epochs: int,
        prepared: Trainable,
        model: LoadedModel,
        data: FitData,
        batches: Batches,
        device: Device,
    ) -> None:
        self._fit, self._steps, self._epochs = fit, steps, epochs
        self._prepared, self._model, self._data, self._batches, self._device = prepared, model, data, batches, device
        self._folder = Path(fit.folder)
        self._schedule = schedule_of(prepared.optimizer, fit, steps * epochs)
        self._far = Far()

    def go(self, send: Send, tally: Collector) -> None:
        """Train until the last epoch, until it gets no better, or until the loss is no number."""
        if self._fit.resume:
            self._far = msgspec.convert(load_state(self._prepared, self._schedule, self._folder / STATE), Far)
            load_weights(self._prepared.module, self._folder / checkpoint_name(self._far.epochs))
            tally.facts.resumed_after_epoch = self._far.epochs
            if self._far.last is not None:
                send(self._far.last)
        else:
            self._keep_tokenizer()
        far, patience = self._far, self._fit.early_stop
        while far.epochs < self._epochs:
            far.last = ended = self._epoch(send, tally)
            save_state(self._prepared, self._schedule, msgspec.to_builtins(far), self._folder / STATE)
            send(ended)
            told, held_out = ended.training, ended.validation
            tally.facts.epochs, tally.facts.best_epoch = far.epochs, far.best
            tally.facts.final_train_accuracy = told.accuracy if told else None
            tally.facts.final_val_accuracy = held_out.accuracy if held_out else None
            if not math.isfinite(ended.loss):
                break
            if patience is not None and far.epochs - far.best >= patience:
                tally.facts.stopped_early = patience
                break

    def _epoch(self, send: Send, tally: Collector) -> EpochEnded:
        """Train, judge and save one epoch."""
        number, began_s, prepared = self._far.epochs + 1, system_clock(), self._prepared
        stage = f"epoch {number}"
        send(Entered(stage, began_s, measures=True))
        self._batches.begin_epoch(number)
        prepared.losses = []

        def listen(steps: int, elapsed_s: float, step_s: float) -> None:
            send(Progress(stage, steps, elapsed_s, step_s, self._steps))

        instrument = Instrument(self._step, self._batches.next, self._device.synchronize, system_clock, listen)
        window = instrument.window(self._device.stopwatch(), FixedCount(self._steps))
        tally.epoch(stage, window)
        prepared.enter("throughput")  # a training has no warm-up: what compiled ends with its first epoch
        loss = fmean(map(float, prepared.losses))
        last_step = number * self._steps - 1
        rate = self._schedule.base_lrs[0] * factor(self._fit, last_step, self._steps * self._epochs)
        trained_s = system_clock()
        training, validation = self._judged(self._data.again), self._judged(self._data.validation)
        judged_s = system_clock()
        better = self._note(_worth(loss, validation))
        checkpoint = self._save(better=better)
        ended_s = system_clock()
        return EpochEnded(
            number,
            rate,
            loss,
            training,
            validation,
            self._steps,
            sum(window.items),
            window.total_s,
            sum(window.waits_s),
            judged_s - trained_s,
            ended_s - judged_s,
            began_s,
            ended_s,
            tuple(window.laps_s),
            checkpoint,
            better,
        )

    def _step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        self._prepared.step(pull, mark)
        self._schedule.step()

    def _judged(self, samples: Samples | None) -> Quality | None:
        if samples is None or len(samples) == 0:
            return None
        batches = self._prepared.open_whole(samples)
        try:
            return judge_model(self._prepared, batches, self._model.input)
        finally:
            batches.close()

    def _note(self, worth: float) -> bool:
        """Count the epoch, and say whether it is the best so far."""
        far = self._far
        far.epochs += 1
        if worth < far.lowest:
            far.lowest, far.best = worth, far.epochs
        return far.best == far.epochs

    def _save(self, *, better: bool) -> str:
        """Save the weights; of those before, keep what was asked for. Returns the name of the new ones."""
        far = self._far
        name = checkpoint_name(far.epochs)
        save_weights(self._prepared.module, self._folder / name)
        if self._fit.keep == "best":
            for epoch in range(1, far.epochs):
                if epoch != far.best:
                    (self._folder / checkpoint_name(epoch)).unlink(missing_ok=True)
        return name

    def _keep_tokenizer(self) -> None:
        """Save what made token ids of the text, where it was made for this data: new data must be read by the same."""
        tokenizer = getattr(self._data.training, "tokenizer", None)
        if tokenizer is not None and hasattr(tokenizer, "save"):
            tokenizer.save(str(self._folder / TOKENIZER))


def awake() -> Iterator[tuple[str, Any]]:
    """Yield (kind, module of torch) of the accelerators in use, without initialising any."""
    import torch

    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_initialized():
            yield kind, module
    if torch.backends.mps.is_available():  # it has nothing to initialise
        yield "mps", torch.mps

"""Judges a checkpoint of a training on data it was held out from, or on new data, and writes the test's files."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.own_files import refuse_links, replacing, write_whole
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.message import EvaluateRequest, Event
from torchstone.core.schema.metric import RAW, Pool
from torchstone.core.schema.model import DataCard
from torchstone.core.schema.training import Evaluated, Evaluation
from torchstone.core.schema.trial import Series, Status, Trial
from torchstone.execution import plan
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.plugins.choices import EVERYBODYS, checked_options, has_end
from torchstone.storage.training import (
    METRICS,
    TOKENIZER,
    TrainingCard,
    checkpoint_of,
    checkpoints,
    read_card,
    write_json,
)
from torchstone.workflows.train.training import absolute


class GaugeSummary(msgspec.Struct, frozen=True):
    """One gauge in the metric's unit: mean, least and most of its readings, over all devices that have it."""

    mean: float
    least: float
    most: float
    readings: int


def summary_of(series: Iterable[Series]) -> Mapping[str, GaugeSummary]:
    """Return each gauge by its metric. Counters, which only rise, are left out: their mean says nothing."""
    values: dict[str, list[float]] = {}
    for one in series:
        if one.metric in RAW and RAW[one.metric].over_steps != Pool.LAST:
            values.setdefault(one.metric, []).extend(one.values)
    return {metric: GaugeSummary(fmean(v), min(v), max(v), len(v)) for metric, v in values.items() if v}


def write_gauges(trial: Trial, path: Path) -> None:
    """Write every reading: a row each, with where it comes from. Raises OSError."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("at_s", "metric", "value", "source", "device"))
        for one in trial.series:
            readings = zip(one.at_s, one.values, strict=True)
            rows.writerows((at_s, one.metric, value, one.source, one.device or "") for at_s, value in readings)


_MOST_ROWS = 50_000_000


class ClassQuality(msgspec.Struct, frozen=True):
    """One class. `support`: how many items really are of it. None where undefined: nothing to divide by."""

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int


class TestMetrics(msgspec.Struct, frozen=True):
    """Of all items. `precision`, `recall` and `f1` are means over the classes that occur (macro), each counting once.

    `confusion_matrix[i][j]`: items of class i that were taken for class j, in the order of `classes`.
    """

    accuracy: float
    precision: float
    recall: float
    f1: float
    confusion_matrix: tuple[tuple[int, ...], ...]
    classes: tuple[str, ...]
    per_class: tuple[ClassQuality, ...]
    items: int


def file_metrics(predictions: Path, labels: Sequence[str], classes: int) -> TestMetrics:
    """Return the metrics of a file of predictions. Raises MissingError without scikit-learn.

    Classes that neither occur nor are answered are left out of the means, as scikit-learn does.
    """
    try:
        from sklearn import metrics
    except ImportError as error:
        raise MissingError("evaluate: needs scikit-learn: pip install 'torchstone[quality]'") from error
    truth, answers = read_predictions(predictions)
    numbers = list(range(max(classes, len(labels), *truth, *answers) if labels else max(*truth, *answers) + 1))
    names = [labels[n] if n < len(labels) else str(n) for n in numbers]
    # zero_division=nan: undefined is not 0, and no warning is needed for it.
    scores: Any = metrics.precision_recall_fscore_support(truth, answers, labels=numbers, zero_division=float("nan"))
    here = sorted(set(truth) | set(answers))
    macro: Any = metrics.precision_recall_fscore_support(
        truth, answers, labels=here, average="macro", zero_division=0.0
    )
    matrix = metrics.confusion_matrix(truth, answers, labels=numbers).tolist()
    each = tuple(
        ClassQuality(name, _number(p), _number(r), _number(f), int(n))
        for name, p, r, f, n in zip(names, *scores, strict=True)
    )
    return TestMetrics(
        float(metrics.accuracy_score(truth, answers)),
        float(macro[0]),
        float(macro[1]),
        float(macro[2]),
        tuple(map(tuple, matrix)),
        tuple(names),
        each,
        len(truth),
    )


def read_predictions(path: Path) -> tuple[list[int], list[int]]:
    """Return labels and predictions. Raises UsageError for a file that is not one of predictions."""
    truth: list[int] = []
    answers: list[int] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                truth.append(int(row["label"]))
                answers.append(int(row["prediction"]))
            except (KeyError, TypeError, ValueError) as error:
                raise UsageError(f"{path}: row {len(truth) + 1}: not a label and a prediction") from error
            if len(truth) > _MOST_ROWS:
                raise UsageError(f"{path}: more than {_MOST_ROWS} rows")
    if not truth:
        raise UsageError(f"{path}: no predictions: the items have no classes")
    return truth, answers


def _number(value: float) -> float | None:
    return float(value) if value == value else None  # noqa: PLR0124  only NaN differs from itself


FOLDER = "test_results"
PREDICTIONS, FIGURES, GAUGES, PICTURE = (
    "predictions.csv",
    "test_metrics.json",
    "gpu_performance_metrics.csv",
    "confusion_matrix.png",
)
_TESTED_ON = ("test", "validation", "train")

Draw = Callable[[TestMetrics], bytes]  # a PNG


class EvaluationRequest(msgspec.Struct, frozen=True):
    """What to judge. `data`: other data than the training's own.

    `checkpoint`: best, last, an epoch's number, or the name or path of its file.
    """

    folder: Path
    checkpoint: str = "best"
    data: str | None = None
    data_options: Mapping[str, Scalar] = {}
    batch_size: int | None = None
    device: str | None = None


class TestResults(msgspec.Struct, frozen=True):
    """What a test came to, and where its files are. `quality` is None where items have no classes.

    `training`: the folder that it was named by.
    """

    training: str
    run_id: str
    epoch: int
    data: str
    split: str | None
    loss: float
    items: int
    throughput: float  # items/s, answers read
    time_per_batch_s: float  # median
    quality: TestMetrics | None
    gauges: Mapping[str, GaugeSummary]
    files: Mapping[str, str]


def evaluation_json(results: TestResults) -> dict[str, Any]:
    """Return what --json prints: the figures of quality at the top, and all else beside them."""
    whole: dict[str, Any] = msgspec.to_builtins(results)
    quality = whole.pop("quality") or {}
    return {**quality, **whole}


def evaluate(asked: EvaluationRequest, draw: Draw) -> TestResults:
    """Judge a checkpoint; `draw` makes the picture of the confusion matrix, or raises MissingError.

    Raises UsageError where training, checkpoint or data are not there or do not fit.
    """
    folder = asked.folder.absolute()
    card = read_card(folder)
    epoch, weights = _checkpoint(folder, asked.checkpoint)
    case, request = _request(card, asked, folder, weights)
    results = folder / FOLDER
    refuse_links(results / PREDICTIONS, folder)
    with Session(request.procedure, [card.workload.model]) as session:
        machine, found = session.inspect()
        placement = plan.place(asked.device or str(card.placement), found, machine)
        case = msgspec.structs.replace(case, placement=placement)
        results.mkdir(exist_ok=True)
        listener = _Listener()
        drive = TrialDrive(
            msgspec.structs.replace(request, case=case), machine.device(placement.device, placement.index), listener
        )
        trial = drive.run(session.launcher, 0)
    judged = listener.judged
    if judged is None or trial.outcome.status != Status.OK:
        raise UsageError(drive.mistake) if drive.mistake else TorchstoneError(f"evaluate: {trial.outcome.message}")
    return _written(card, asked.folder, case, epoch, judged, trial, results, request, draw)


class _Listener(Silent):
    """Keeps the one event that matters."""

    judged: Evaluated | None = None

    def heard(self, event: Event) -> None:
        """Keep it."""
        if isinstance(event, Evaluated):
            self.judged = event


def _checkpoint(folder: Path, word: str) -> tuple[int, Path]:
    found = checkpoints(folder)
    if not found:
        raise UsageError(f"{folder}: no epoch of this training has ended; nothing to evaluate")
    if word == "last":
        number = max(found)
    elif word == "best":
        number = _best(folder, found)
    else:
        number = checkpoint_of(folder, word)
    return number, found[number]


def _best(folder: Path, found: Mapping[int, Path]) -> int:
    from torchstone.core.schema.codec import decode
    from torchstone.core.schema.training import TrainingMetrics

    path = folder / METRICS
    if path.is_file():
        metrics: TrainingMetrics = decode(path.read_bytes(), TrainingMetrics)
        if metrics.best_epoch in found:
            return metrics.best_epoch
    return max(found)


def _request(card: TrainingCard, asked: EvaluationRequest, folder: Path, weights: Path) -> tuple[Case, EvaluateRequest]:
    """Return the Case with the data to judge on, and the request for it."""
    from torchstone.plugins import registry
    from torchstone.plugins.protocols import DataSource

    data = card.workload.data if asked.data is None else _named(card, asked.data)
    own = data == card.workload.data
    scheme, _, path = data.partition(":")
    if not has_end(data):
        raise UsageError(f"evaluate: data {data} is endless and has no labels; give --data")
    source: DataSource = registry.load("data", scheme)
    before = {n: v for n, v in card.workload.data_options.items() if n not in EVERYBODYS}
    # A source that divides data by itself has not divided what the training never saw: all of it is judged on.
    whole = {"held_out": "all"} if not own and "held_out" in source.options else {}
    options = checked_options(data, source, {**before, **whole, **asked.data_options})
    found = source.card(path, {name: value for name, value in options.items() if name not in EVERYBODYS})
    split, held_out = options.get("split"), None
    if found.splits:
        split = _split(data, found, split, classes=bool(card.labels))
    elif split is not None:
        raise UsageError(f"data {data}: has no splits; leave out split={split}")
    elif own and card.procedure.fit is not None:
        held_out, options = card.procedure.fit.validation, dict(card.workload.data_options)
    if found.classes is None and card.labels:
        raise UsageError(f"data {data}: has no labels to evaluate with; give another split or data")
    workload = msgspec.structs.replace(card.workload, data=data, data_options=options)
    configuration = {**card.configuration, **({"batch_size": asked.batch_size} if asked.batch_size else {})}
    case = Case(workload, configuration, card.placement)
    tokenizer = folder / TOKENIZER
    evaluation = Evaluation(
        str(weights),
        str(folder / FOLDER / PREDICTIONS),
        str(split) if split else None,
        card.labels,
        str(tokenizer) if tokenizer.is_file() else None,
        held_out,
    )
    how = msgspec.structs.replace(card.procedure, fit=None, epochs=None)
    return case, EvaluateRequest(case, how, evaluation=evaluation)


def _split(data: str, found: DataCard, asked: Scalar, *, classes: bool) -> str:
    """Return the split to judge on: the one asked for, or the first with labels. GLUE's test sets have none."""
    there = [name for name in _TESTED_ON if name in found.splits]
    labelled = [name for name in there if not classes or name not in found.unlabelled]
    if asked is None:
        return (labelled or there)[0]
    if asked not in found.splits:
        raise UsageError(f"data {data}: has no split {asked}; it has {', '.join(found.splits)}")
    if asked not in labelled and labelled:
        has = f"--split {labelled[0]} has some"
        raise UsageError(f"data {data}: split {asked} has no labels to evaluate with; {has}")
    return str(asked)


def _named(card: TrainingCard, word: str) -> str:
    """Return data in full: a bare path is read as the training's own data was."""
    from torchstone.plugins import registry

    own = card.workload.data.partition(":")[0]
    full = word if word.partition(":")[0] in registry.names("data") else f"{own}:{word}"
    return absolute(msgspec.structs.replace(card.workload, data=full)).data


def _written(
    card: TrainingCard,
    training: Path,
    case: Case,
    epoch: int,
    judged: Evaluated,
    trial: Trial,
    folder: Path,
    request: EvaluateRequest,
    draw: Draw,
) -> TestResults:
    from statistics import median

    predictions = folder / PREDICTIONS
    quality = file_metrics(predictions, card.labels, len(card.labels)) if judged.quality.accuracy is not None else None
    files = {"predictions": str(predictions), "metrics": str(folder / FIGURES), "gauges": str(folder / GAUGES)}
    write_gauges(trial, folder / GAUGES)
    if quality is not None:
        with contextlib.suppress(MissingError):  # a picture is not worth the test; the matrix is in the metrics
            write_whole(folder / PICTURE, draw(quality))
            files["picture"] = str(folder / PICTURE)
    split = request.evaluation.split
    results = TestResults(
        str(training),
        card.run_id,
        epoch,
        case.workload.data,
        split,
        judged.quality.loss,
        judged.quality.items,
        judged.quality.items / sum(judged.batch_times_s),
        median(judged.batch_times_s),
        quality,
        summary_of(trial.series),
        files,
    )
    write_json(folder / FIGURES, evaluation_json(results))
    return results

"""Accuracy, precision, recall, F1 and the confusion matrix, by scikit-learn, from the predictions that were saved."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, UsageError

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


def quality_of(predictions: Path, labels: Sequence[str], classes: int) -> TestMetrics:
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
        ClassQuality(name, _known(p), _known(r), _known(f), int(n))
        for name, p, r, f, n in zip(names, *scores, strict=True)
    )
    return TestMetrics(
        float(metrics.accuracy_score(truth, answers)), float(macro[0]), float(macro[1]), float(macro[2]),
        tuple(map(tuple, matrix)), tuple(names), each, len(truth),
    )  # fmt: skip


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


def _known(value: float) -> float | None:
    return float(value) if value == value else None  # noqa: PLR0124  only NaN differs from itself

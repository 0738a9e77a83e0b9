"""Evaluate a checkpoint: accuracy, precision, recall, F1 and the confusion matrix, on held-out or new data.

torchstone evaluate trained
torchstone evaluate trained --data new-reviews/ --json
torchstone evaluate                       (the latest training, its best epoch)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._run_options import at_least, data_options_of
from torchstone.cli._table import Column, plain, show
from torchstone.core import units
from torchstone.core.schema.metric import RAW

if TYPE_CHECKING:
    from torchstone.workflows.train.evaluation import TestResults
    from torchstone.workflows.train.quality import TestMetrics

_SHOWN_CLASSES = 30
_SHOWN_GAUGES = (
    ("device_utilization", "in use", "mean"), ("device_memory_used_bytes", "memory at most", "most"),
    ("device_temperature_c", "mean temperature", "mean"), ("device_power_w", "mean power", "mean"),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of evaluate."""
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="the --output folder of a training (default: the latest)"
    )
    parser.add_argument("--model-dir", "--model_dir", metavar="DIR", help="the same as giving the folder as DIR")
    parser.add_argument(
        "--checkpoint", default="best", metavar="N",
        help="best (default), last, an epoch's number, or its file: checkpoint_epoch_3.safetensors",
    )  # fmt: skip
    parser.add_argument("--data", help="PATH or SOURCE:PATH (default: the training's data)")
    parser.add_argument("--data-option", action="append", metavar="NAME=VALUE", help="option of the data")
    parser.add_argument("--split", metavar="S", help="train, validation or test (default: test, where there is one)")
    parser.add_argument("--limit", type=int, metavar="N", help="use at most N items (default: all)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="items per batch (default: the training's)")
    parser.add_argument("--device", metavar="D", help="device to evaluate on (default: the training's)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout, nothing else")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Judge, print the figures, and say where the files are."""
    from torchstone.core.errors import UsageError
    from torchstone.report.charts.training import confusion_chart
    from torchstone.storage.training.folder import training_of
    from torchstone.workflows.train.evaluation import Asked, evaluate

    if options.folder is not None and options.model_dir is not None:
        raise UsageError("name the folder once: DIR or --model-dir")
    named = options.folder or options.model_dir
    beside = training_of(options.checkpoint)
    folder = Path(named) if named is not None else beside or _latest(folder_of(options))
    batch_size = at_least("--batch-size", options.batch_size, 1)
    chosen = data_options_of(options)
    asked = Asked(folder, options.checkpoint, options.data, chosen, batch_size, options.device)
    results = evaluate(asked, confusion_chart)
    if options.json:
        from torchstone.cli._json import print_json

        print_json(results.document())
    else:
        _print(results, folder)
    return 0


def _latest(store: Path) -> Path:
    from torchstone.storage.query import trainings
    from torchstone.storage.training.folder import newest

    return newest(store / "training", trainings(store))


def _print(results: TestResults, folder: Path) -> None:
    split = f", split {results.split}" if results.split else ""
    print(f"{_answer(results)}\n")
    print(plain(f"{folder}, epoch {results.epoch}, on {results.data}{split}: {results.items:,} items"))
    print(f"  loss       {units.significant(results.loss, 4)}")
    if results.quality is not None:
        _print_quality(results.quality)
    rate, batch = units.quantity(results.throughput, "items/s"), units.quantity(results.time_per_batch_s, "s")
    print(f"  speed      {rate}, {batch} a batch (median, answers read)")
    if gauges := list(_gauges(results)):
        print(f"  device     {', '.join(gauges)}")
    for name, path in results.files.items():
        print(plain(f"{name:<12} {path}"))


def _gauges(results: TestResults) -> Iterator[str]:
    for metric, words, how in _SHOWN_GAUGES:
        if (found := results.gauges.get(metric)) is not None:
            yield f"{words} {units.quantity(getattr(found, how), RAW[metric].unit)}"


def _answer(results: TestResults) -> str:
    loss = f"loss {units.significant(results.loss, 4)}"
    if results.quality is None:
        return f"Loss {loss.removeprefix('loss ')} over {results.items:,} items."
    from torchstone.core.stats.proportion import wilson

    share = results.quality.accuracy
    low, high = wilson(share, results.items)
    return f"Accuracy {share:.2%} (95 % interval {low:.2%} to {high:.2%}, {results.items:,} items), {loss}."


def _print_quality(quality: TestMetrics) -> None:
    print(f"  accuracy   {quality.accuracy:.2%}")
    means = f"{quality.precision:.2%}, recall {quality.recall:.2%}, F1 {quality.f1:.2%}"
    print(f"  precision  {means} (means over classes)")
    print()
    if len(quality.classes) > _SHOWN_CLASSES:
        print(f"{len(quality.classes)} classes: those of each, and the confusion matrix, are in the file of metrics")
        return
    names = [f"{n} {plain(name)}" for n, name in enumerate(quality.classes)]
    each = quality.per_class
    columns = [
        Column("class", names, left=True), Column("items", [str(c.support) for c in each]),
        Column("precision", [_share(c.precision) for c in each]), Column("recall", [_share(c.recall) for c in each]),
        Column("F1", [_share(c.f1) for c in each]),
        *(Column(f"→{n}", [str(row[n]) for row in quality.confusion_matrix], rank=1) for n in range(len(names))),
    ]  # fmt: skip
    show(columns)
    print()


def _share(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:.1%}"

"""Evaluate a checkpoint: accuracy, precision, recall, F1 and the confusion matrix, on held-out or new data.

torchstone evaluate trained
torchstone evaluate trained --data new-reviews/ --json
torchstone evaluate                       (the latest training, its best epoch)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import add_json, add_save, check_save, print_result
from torchstone.cli._place import add_folder, folder_of
from torchstone.cli._run_options import at_least, data_options_from


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of evaluate."""
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="the --output folder of a training (default: the latest)"
    )
    parser.add_argument("--model-dir", "--model_dir", metavar="DIR", help="the same as giving the folder as DIR")
    parser.add_argument(
        "--checkpoint",
        default="best",
        metavar="N",
        help="best (default), last, an epoch's number, or its file: checkpoint_epoch_3.safetensors",
    )
    parser.add_argument("--data", help="PATH or SOURCE:PATH (default: the training's data)")
    parser.add_argument("--data-option", action="append", metavar="NAME=VALUE", help="option of the data")
    parser.add_argument("--split", metavar="S", help="train, validation or test (default: test, where there is one)")
    parser.add_argument("--limit", type=int, metavar="N", help="use at most N items (default: all)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="items per batch (default: the training's)")
    parser.add_argument("--device", metavar="D", help="device to evaluate on (default: the training's)")
    add_save(parser)
    add_json(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Judge, print the figures, and say where the files are."""
    from torchstone.core.charts.drawing import as_png
    from torchstone.core.errors import UsageError
    from torchstone.report.documents.training import confusion
    from torchstone.storage.training import training_of
    from torchstone.workflows.train.evaluation import EvaluationRequest, evaluate

    if options.folder is not None and options.model_dir is not None:
        raise UsageError("name the folder once: DIR or --model-dir")
    named = options.folder or options.model_dir
    beside = training_of(options.checkpoint)
    folder = Path(named) if named is not None else beside or _latest(folder_of(options))
    batch_size = at_least("--batch-size", options.batch_size, 1)
    chosen = data_options_from(options)
    check_save(options)
    asked = EvaluationRequest(folder, options.checkpoint, options.data, chosen, batch_size, options.device)
    print_result(options, "evaluation", evaluate(asked, lambda metrics: as_png(confusion(metrics))))
    return 0


def _latest(store: Path) -> Path:
    from torchstone.storage.query import trainings
    from torchstone.storage.training import newest

    return newest(store / "training", trainings(store))

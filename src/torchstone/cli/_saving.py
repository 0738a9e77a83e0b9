"""--save-model: the model of a run as a file that loads without torchstone."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core import units

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary


def add_save_model(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --save-model."""
    parser.add_argument(
        "--save-model",
        type=Path,
        metavar="FILE",
        help="write the model of task infer with the best settings, as its runtime loads it (suffix .onnx, .xml, .pt2 "
        "or .pt), and print the lines of Python that run it without torchstone",
    )


def save_model(options: argparse.Namespace, summary: RunSummary, path: Path) -> None:
    """Write the model of a run, and print its files and how they are loaded: on stderr where stdout is JSON."""
    from torchstone.execution.controller.device_lock import WhenBusy
    from torchstone.storage.query import read_run
    from torchstone.workflows.tune.saving import saved

    word = getattr(options, "when_busy", os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"))
    busy = WhenBusy.read(word, lambda text: print(f"torchstone: {text}", file=sys.stderr, flush=True))
    found = saved(read_run(Path(summary.record)), summary, path, busy)
    for file in found.files:
        print(f"wrote {file} ({units.quantity(float(file.stat().st_size), 'bytes')})", file=sys.stderr)
    print("\n".join(found.lines), file=sys.stderr if options.json else sys.stdout)

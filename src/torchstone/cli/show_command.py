"""Print a stored run: every figure with its 95 % confidence interval, the findings; --full: every figure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._applying import add_save_model, save_model
from torchstone.cli._output import add_json, document_of, print_json, run_json, show_document, terminal_width
from torchstone.cli._place import add_place, place_of
from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of show."""
    parser.add_argument("run", nargs="?", default="latest", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--full", action="store_true", help="print the whole report: system, device, model, data, every figure"
    )
    parser.add_argument(
        "--plot", action="store_true", help="print throughput over batch size in characters, with its intervals"
    )
    parser.add_argument(
        "--apply", type=Path, metavar="FILE", help="write the best settings of a tune into this YAML, JSON or TOML file"
    )
    add_save_model(parser)
    add_json(parser)
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Print the run."""
    from torchstone.analysis.summary import summarize
    from torchstone.report.results import is_result
    from torchstone.storage.query import find

    if is_result(options.run):
        # Print what is no run, from the file in which --save kept it.
        from torchstone.report.results import read_result

        if options.apply is not None or options.plot or options.save_model is not None:
            raise UsageError(f"{options.run} is no run: --apply, --plot and --save-model do not apply")
        result, document = read_result(Path(options.run))
        if options.json:
            print_json(result.json())
            return 0

        show_document(document, every=options.full)
        return 0
    summary = summarize(find(place_of(options), options.run))
    if options.apply is not None:
        from torchstone.cli._applying import apply_answer

        apply_answer(options.apply, summary)
        return 0
    if options.save_model is not None:
        from torchstone.workflows.tune.saving import checked_path

        save_model(options, summary, checked_path(options.save_model))
        return 0
    if options.json:
        print_json(run_json(summary))
        return 0

    plot = _plot(summary) if options.plot else ()
    show_document(document_of(summary, every=options.full), every=options.full)
    for line in plot:
        print(line)
    return 0


def _plot(summary: RunSummary) -> Sequence[str]:
    """Return the lines of throughput over batch size. Raises UsageError where no two batch sizes were measured."""
    from torchstone.report.charts.batch_sizes import THROUGHPUT, batch_size_charts
    from torchstone.report.document import Document
    from torchstone.report.documents.run import without_probes
    from torchstone.report.pictures import charts_of
    from torchstone.report.renderers.terminal import characters
    from torchstone.report.translation.documents import in_spoken_language

    found = next((one for one in batch_size_charts(without_probes(summary)) if one.name == THROUGHPUT), None)
    if found is None:
        raise UsageError("--plot: two batch sizes make a curve; measure more (--batch-sizes 8,32,128)")
    (chart,) = charts_of(in_spoken_language(Document(summary.name, (found,))))
    return ["", *characters(chart.picture, terminal_width())]

"""Compare stored runs of one or several machines: ratios with confidence intervals, and what else differs.

Cases are matched by what they compute. Each figure is better, worse, same (within --margin) or unclear, with a bounded
rate of false alarms. The first RUN is the baseline.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.cli._parsing import split_words
from torchstone.cli._place import add_place, folder_of, place_of, writable
from torchstone.cli._reports import Folders, compared_report, write_reports
from torchstone.core import units
from torchstone.core.errors import ExitCode, UsageError
from torchstone.core.units import plain
from torchstone.report.rendering import formats

if TYPE_CHECKING:
    from torchstone.analysis.compare.compare import ComparedRuns, Gate, Offered
    from torchstone.analysis.compare.inputs import ComparedInput
    from torchstone.storage.place import Place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of compare."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a path, an id, a unique prefix, a name, latest, a folder from another machine (all its runs), "
        "or the training_metrics.json of a training",
    )
    parser.add_argument(
        "--over",
        metavar="AXIS",
        help="with one RUN: compare the values of this axis within it, or its devices (`device`)",
    )
    parser.add_argument("--baseline", metavar="RUN", help="run that the others are compared with (default: the first)")
    parser.add_argument(
        "--margin", default="2%", help="equivalence margin: smaller differences count as equal (default 2%%)"
    )
    parser.add_argument(
        "--price-per-hour",
        nargs="+",
        metavar="RUN=PRICE",
        help="price of an hour of a device, for the cost per item: A=2.5 B=1.9",
    )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="the same from a price table, with date and source (docs/cost.md)"
    )
    parser.add_argument(
        "--fail-on",
        nargs="+",
        action="extend",
        metavar="VERDICT",
        help="exit 1 if any figure is worse, worse:5%% (by more than 5 %%) or unclear; if a case of the baseline is "
        "missing; with each of them, if a case is not comparable",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="where to write the JSON document (default: benchmark_comparison_TIME.json)"
    )
    parser.add_argument(
        "--figures",
        metavar="DIR",
        help="write plots (SVG and PNG) and stats/comparative_statistics.csv into DIR/analysis_results",
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="FORMATS",
        help=f"write the report too, as any of {', '.join(formats())}, into the folder reports of --output-dir",
    )
    parser.add_argument("--full", action="store_true", help="print the machines, every figure, and all that differs")
    add_json(parser)
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Compare, write the document, show it; return 1 if --fail-on finds something."""
    from torchstone.analysis.compare.compare import ComparisonRequest, compare
    from torchstone.report.comparison_folder import checked_output, comparison_json, write_comparison

    folder, gate = writable(folder_of(options)), _gate(options.fail_on)
    output = checked_output(Path(options.output)) if options.output is not None else None
    if options.figures is not None and Path(options.figures).is_file():
        raise UsageError(f"--figures {options.figures} is a file; name a folder")
    margin = units.share(options.margin, "--margin")
    participants = _participants(options, place_of(options))
    offers = _offers(options, participants)
    prices = {letter: one.price.per_hour for letter, one in offers.items()}
    prices |= _prices(options.price_per_hour, participants)
    asked = ComparisonRequest(margin, prices, offers)
    compared = compare(participants, asked)
    document = comparison_json(compared)
    written, reports = [], []
    if options.format:
        there = Folders(folder / "reports", None, (folder,))
        make = lambda how: compared_report(participants, asked, place_of(options), how)
        reports = write_reports(make, split_words(options.format), there, records=True)
    if options.figures is not None:
        from torchstone.report.comparison_folder import write_analysis

        written = write_analysis(participants, Path(options.figures), prices)
    path = write_comparison(document, folder, output)
    if options.json:
        print_json(document)
        if reports:
            print("\n".join(map(str, reports)), file=sys.stderr)
    else:
        from torchstone.report.documents.comparison import comparison_document

        files = [str(path), *map(str, reports), *dict.fromkeys(str(file.parent) for file in written)]
        show_document(comparison_document(compared, files), every=options.full)
    return ExitCode.NO if gate is not None and _closes(gate, compared) else ExitCode.DONE


def _closes(gate: Gate, compared: ComparedRuns) -> bool:
    """Say whether a gate closes, and on stderr what does not get through."""
    from torchstone.analysis.compare.compare import failing
    from torchstone.analysis.compare.inputs import lost

    failed, gone = failing(compared, gate), lost(compared.participants, compared.matched) if gate.missing else {}
    for one in failed[:10]:
        found = one.comparison
        ratio = f" {units.ratio(found.ratio.value, found.ratio.low, found.ratio.high)}" if found.ratio else ""
        which = f"{found.candidate.label}, {one.case}: {found.metric}"
        print(plain(f"torchstone: {which}{ratio} {found.verdict}"), file=sys.stderr)
    for letter, cases in gone.items():
        more = f" and {len(cases) - 10} more" if len(cases) > 10 else ""
        named = ", ".join(cases[:10])
        print(plain(f"torchstone: {letter} has no successful trial of {named}{more}"), file=sys.stderr)
    return bool(failed or gone)


def _participants(options: argparse.Namespace, place: Place) -> list[ComparedInput]:
    from torchstone.analysis.compare.inputs import gather, split

    if options.over is None:
        return gather(options.runs, place, options.baseline)
    if len(options.runs) > 1:
        raise UsageError("--over compares the values of an axis within one run: give one RUN")
    return split(options.runs[0], options.over, place, options.baseline)


def _offers(options: argparse.Namespace, participants: list[ComparedInput]) -> dict[str, Offered]:
    """Return the price of each one's device and its currency, by letter. Raises UsageError where none has one."""
    from torchstone.analysis.compare.compare import Offered
    from torchstone.analysis.compare.inputs import device_of
    from torchstone.config.prices import read_prices

    if options.prices is None:
        return {}
    prices = read_prices(options.prices)
    devices = {one.letter: device_of(one.runs[0]) for one in participants}
    names = {letter: device.name for letter, device in devices.items() if device is not None}
    found = {letter: price for letter, name in names.items() if (price := prices.of(name)) is not None}
    if not found or prices.currency is None:
        raise UsageError(f"--prices {options.prices}: no price for {', '.join(dict.fromkeys(names.values()))}")
    return {letter: Offered(price, prices.currency) for letter, price in found.items()}


def _prices(texts: list[str] | None, participants: list[ComparedInput]) -> dict[str, float]:
    from torchstone.analysis.compare.inputs import participant_named

    found: dict[str, float] = {}
    for text in split_words(texts):
        word, equals, price = text.rpartition("=")
        try:
            value = float(price)
        except ValueError:
            value = 0.0
        if not equals or not 0.0 < value < 1e9:
            raise UsageError(f"--price-per-hour {text}: write RUN=PRICE, such as A=2.5")
        found[participant_named(participants, word, "--price-per-hour").letter] = value
    return found


def _gate(texts: list[str] | None) -> Gate | None:
    from torchstone.analysis.compare.compare import Gate

    if not texts:
        return None
    worse, worse_by, unclear, missing = False, 0.0, False, False
    for word in split_words(texts):
        verdict, colon, margin = word.partition(":")
        if verdict == "worse":
            worse, worse_by = True, units.share(margin, "--fail-on worse") if colon else 0.0
        elif word == "unclear":
            unclear = True
        elif word == "missing":
            missing = True
        else:
            raise UsageError(f"--fail-on {word}: write worse, worse:5%, unclear or missing")
    return Gate(worse, worse_by, unclear, missing)

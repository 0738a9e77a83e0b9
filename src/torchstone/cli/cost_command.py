"""What stored results cost: money, energy and carbon of a million items, an epoch, a training, with intervals.

torchstone cost latest --prices prices.yaml
torchstone cost latest --prices prices.yaml --epochs 90 --items 50000
torchstone cost RUN RUN --prices prices.yaml --electricity power.yaml

Prices are yours: a table with date and source of each (docs/cost.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import add_json, add_save, check_save, print_result
from torchstone.cli._place import add_folder, folder_of
from torchstone.core.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of cost."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="price per hour of each device, with date and source; also electricity and carbon intensity",
    )
    parser.add_argument(
        "--electricity",
        type=Path,
        metavar="FILE",
        help="electricity price and carbon, from a file of its own",
    )
    parser.add_argument("--provider", metavar="NAME", help="only the prices of this provider")
    parser.add_argument("--epochs", type=float, metavar="N", help="cost of a training of so many epochs")
    parser.add_argument(
        "--items", type=float, metavar="N", help="items of an epoch (default: those of the data set that was measured)"
    )
    parser.add_argument("--full", action="store_true", help="print every row")
    add_save(parser)
    add_json(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Print the costs; return 1 where there is nothing to reckon with."""
    from torchstone.analysis.cost import CostRequest, costs
    from torchstone.analysis.summary import summarize
    from torchstone.config.prices import read_prices, with_electricity
    from torchstone.storage.query import find

    if options.prices is None and options.electricity is None:
        raise UsageError("cost needs prices: --prices FILE (example in docs/cost.md)")
    for flag, value in (("--epochs", options.epochs), ("--items", options.items)):
        if value is not None and not 0.0 < value < 1e15:
            raise UsageError(f"{flag} {value:g} is not a number above 0")
    prices = read_prices(options.prices) if options.prices is not None else None
    if options.electricity is not None:
        power = read_prices(options.electricity)
        if power.electricity is None and power.carbon is None:
            raise UsageError(f"{options.electricity}: has neither electricity nor carbon (example in docs/cost.md)")
        prices = with_electricity(prices, power)
    assert prices is not None
    check_save(options)
    folder = folder_of(options)
    found = [summarize(find(folder, word)) for word in dict.fromkeys(options.runs or ["latest"])]
    told = costs(found, CostRequest(prices, options.epochs, options.items, options.provider))
    print_result(options, "cost", told, every=options.full)
    return ExitCode.DONE if told.cases else ExitCode.NO

"""Recommend hardware and settings from all stored results.

torchstone recommend                                 (everything, by speed)
torchstone recommend --family vision --task train --by energy
torchstone recommend --model gpt2 --by price --prices prices.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import add_json, add_save, check_save, print_result
from torchstone.cli._place import add_place, place_of

_BY = ("speed", "energy", "memory", "price")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of recommend."""
    parser.add_argument("--family", help="only models of this family: vision, embedding, text_generation, custom, …")
    parser.add_argument("--model", help="only models whose name contains this")
    parser.add_argument("--task", help="train, infer, generate or load")
    parser.add_argument(
        "--by",
        choices=_BY,
        default="speed",
        help="rank by items/s (speed, the default), items/J, items/s per GB or items per price",
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="price per hour of each device, with date and source, as YAML, JSON, TOML or CSV",
    )
    parser.add_argument("--full", action="store_true", help="print every setting and every model, not only the first")
    add_save(parser)
    add_json(parser)
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Show what is recommended; with --save, write it too."""
    from torchstone.analysis.recommend.recommend import RecommendRequest, recommend
    from torchstone.config.prices import read_prices

    check_save(options)
    prices = read_prices(options.prices) if options.prices is not None else None
    told = recommend(
        place_of(options), RecommendRequest(options.by, options.family, options.model, options.task, prices)
    )
    print_result(options, "recommendation", told, every=options.full)
    return 0

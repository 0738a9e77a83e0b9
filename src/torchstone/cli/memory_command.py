"""Predict the peak memory of a step on any card, without the card, and the largest batch that fits.

torchstone memory gpt2 --for h100-80gb
torchstone memory bert --task train --for rtx4090,a100-40gb --axis precision=fp32,bf16 --axis gradient_checkpointing=false,true
torchstone memory my-run.yaml --for 24gb --batch-sizes 8,16,32
"""  # noqa: E501

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from torchstone.cli._output import StatusLine, add_json, add_save, check_save, print_result
from torchstone.cli._parsing import split_words
from torchstone.cli._place import add_folder
from torchstone.cli._reports import add_plots, require_drawing, write_and_list_plots
from torchstone.cli._run_options import add_choice, add_workload, request_from
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchstone.core.cards import Card

_USUAL = ("t4", "rtx4090", "a100-40gb", "h100-80gb", "h200")  # where no card is named: one of each common size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of memory."""
    parser.add_argument(
        "--for",
        dest="cards",
        nargs="+",
        metavar="CARD",
        help=f"cards or sizes, need not be installed: rtx4090, h100-80gb, mi300x, 24gb (default {','.join(_USUAL)})",
    )
    add_plots(parser)
    add_save(parser)
    add_folder(parser)
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    what = add_workload(parser)
    add_choice(what)


def run(options: argparse.Namespace) -> int:
    """Predict, and print what fits. Exit 1 where nothing that was asked about does."""
    from torchstone.analysis.memory_fit import FitVerdict
    from torchstone.workflows.memory import answer_all, questions_of

    if options.recipe is None and options.config is None and options.model is None:
        raise UsageError("nothing to predict: name a recipe (torchstone list recipes), a file or a --model")
    if options.device is not None:
        raise UsageError("--device: memory is predicted without a device; name a card, for example --for rtx4090")
    if options.plots is not None:
        require_drawing()
    check_save(options)
    cards = cards_of(options.cards or _USUAL)
    request = request_from(options)
    answer = answer_all(request, questions_of(request, cards), show_tracing(options))
    show_tracing(options)("")
    print_result(options, "memory", answer)
    if options.plots is not None:
        from torchstone.report.documents.memory import memory_document

        write_and_list_plots(memory_document(answer), options.plots)
    return (
        ExitCode.DONE if any(row.verdict in (FitVerdict.FITS, FitVerdict.TIGHT) for row in answer.rows) else ExitCode.NO
    )


def cards_of(texts: tuple[str, ...] | list[str]) -> list[Card]:
    """Return the cards named, `a,b` or `a b`; words that only together are a card (`rtx 4090`) are one."""
    from torchstone.core.cards import card

    whole = " ".join(texts)
    try:
        return [card(whole)]
    except UsageError:
        return list(dict.fromkeys(card(word) for word in split_words(texts)))


def show_tracing(options: argparse.Namespace) -> Callable[[str], None]:
    """Return what shows on stderr which configuration is traced; "" wipes that."""
    status = StatusLine(quiet=options.quiet or options.json)
    return lambda what: status.show(f"tracing {what} …" if what else "")

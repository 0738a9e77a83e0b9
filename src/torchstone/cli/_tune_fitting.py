"""`tune --for CARD`: which of the settings that tune would try fit a card that is not here."""

from __future__ import annotations

import argparse

import msgspec

from torchstone.cli._tune_options import tune_asked
from torchstone.core.errors import ExitCode


def fitted(options: argparse.Namespace) -> int:
    """Print what fits each card; return the exit code: 1 where nothing does."""
    from torchstone.cli.memory_command import cards_of, telling
    from torchstone.workflows.memory.prediction import answered, shapes_only
    from torchstone.workflows.memory.tuned import fitting, tried_on

    request, _ = tune_asked(options)
    request = msgspec.structs.replace(request, run=shapes_only(request.run))
    tried = {card: tried_on(request, card) for card in cards_of(options.cards)}
    answer = answered(request.run, [one for each in tried.values() for one in each.asked], telling(options))
    counts = {}
    for card, each in tried.items():
        rows = [row for row in answer.rows if row.card == card.title]
        counts[card.title] = (fitting(each, rows), len(each.points))
    if options.json:
        from torchstone.cli._json import print_json
        from torchstone.report.documents.memory import memory_json

        points = {card: {"fit": fit, "of": of} for card, (fit, of) in counts.items()}
        print_json({**memory_json(answer), "points": points})
    else:
        from torchstone.cli._render import show_document
        from torchstone.report.documents.memory import memory_document

        told = "; ".join(f"{card}: {fit} of {of}" for card, (fit, of) in counts.items())
        show_document(memory_document(answer, f"Settings that fit, of those that tune would try: {told}."))
    return ExitCode.DONE if any(fit for fit, _ in counts.values()) else ExitCode.NO

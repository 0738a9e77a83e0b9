"""Test whether B is faster than A: both run at once, interleaved, until a sequential test decides.

torchstone ab smoke --task infer --a precision=fp32 --b precision=bf16
torchstone ab before.yaml after.yaml
torchstone ab main HEAD --task train --model py:model.py:load     (two git revisions of your code)
torchstone ab main HEAD -- python train.py                        (of a program as you type it)
torchstone ab -- python train.py --lr 1 -- python train.py --lr 2 (two commands)
torchstone ab HEAD . --config bench.yaml --fail-on worse            (. is the work tree as it is)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._measuring import add_busy, busy_of
from torchstone.cli._parsing import add_json
from torchstone.cli._program import add_program
from torchstone.cli._run_options import add_run_options
from torchstone.core.errors import ExitCode
from torchstone.core.schema.comparison import Comparison, Judgement

MEASURES_PROGRAMS = True  # behind --


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ab."""
    parser.add_argument(
        "sides", nargs="*", metavar="A B",
        help="two recipes, files or git revisions; or one recipe (or --model) with --a and --b",
    )  # fmt: skip
    parser.add_argument("--a", action="append", metavar="NAME=V", help="a setting of A, the baseline")
    parser.add_argument("--b", action="append", metavar="NAME=V", help="a setting of B")
    parser.add_argument(
        "--margin",
        default="2%",
        metavar="P",
        help="equivalence margin: smaller differences count as equal (default 2%%)",
    )
    parser.add_argument(
        "--false-alarms",
        default="1%",
        metavar="P",
        help="significance level, over all looks of the sequential test (default 1%%)",
    )
    parser.add_argument(
        "--within",
        metavar="T",
        help="maximum time of the test (default 60s, and at least six pairs of processes)",
    )
    parser.add_argument(
        "--fail-on", nargs="+", action="extend", metavar="VERDICT",
        help="for CI: exit 1 if B is worse, worse:5%% (by more than 5 %%), unclear or better, or if a side fails",
    )  # fmt: skip
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_busy(parser)
    add_run_options(parser, sides=True)
    add_program(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Compare, and print the answer."""
    from torchstone.cli._ab_progress import AbProgress
    from torchstone.cli._ab_request import gate_of, rules_of, sides_of
    from torchstone.cli._interrupts import EXIT_CODE, answered
    from torchstone.execution.timing.clock import system_clock
    from torchstone.workflows.ab.live_comparison import AbCampaign

    began_s = system_clock()
    gate, words = gate_of(options)
    folder, rules, busy = writable(folder_of(options)), rules_of(options), busy_of(options)
    progress = AbProgress(rules, quiet=options.quiet)
    try:
        with answered(), sides_of(options, words) as sides:
            try:
                strict = options.within is not None
                campaign = AbCampaign(sides, rules, tell=progress.tell, busy=busy, strict=strict, say=progress.say)
                results, ended = campaign.carry_out(folder, sys.argv[1:], began_s)
            finally:
                progress.close()
    except (KeyboardInterrupt, SystemExit):
        print("torchstone: interrupted: an incomplete ab has no result", file=sys.stderr)
        return EXIT_CODE
    summary = results.summary
    if options.json:
        from torchstone.cli._json import print_json
        from torchstone.cli._run_json import whole

        print_json(whole(summary))
    else:
        from torchstone.cli._render import show_document
        from torchstone.core.schema.answer import AbResult
        from torchstone.report.documents.ab import ab_document

        files = {"record": summary.record, "document": str(results.document)}
        assert isinstance(summary.answer, AbResult)
        show_document(ab_document(summary.answer, ended.trials, summary.cases, files))
    return ExitCode.NO if not ended.pairs or fails(ended.comparison, gate) else ExitCode.DONE


def fails(found: Comparison, gate: Mapping[Judgement, float]) -> bool:
    """Say whether a gate closes (gate_of), or a side failed: then nobody knows what B costs, and nothing is known."""
    if found.verdict == Judgement.NOT_COMPARABLE:
        return True
    least = gate.get(found.verdict)
    if not least or found.ratio is None:
        return least is not None
    return max(found.ratio.value, 1.0 / found.ratio.value) > 1.0 + least

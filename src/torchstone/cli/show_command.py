"""Print a stored run: every figure with its 95 % confidence interval, the findings; --full: every figure."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._folder import add_folder, folder_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of show."""
    parser.add_argument("run", nargs="?", default="latest", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--full", action="store_true", help="print the whole report: system, device, model, data, every figure"
    )
    parser.add_argument(
        "--apply", type=Path, metavar="FILE", help="write the best settings of a tune into this YAML, JSON or TOML file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Print the run."""
    from torchstone.analysis.summary import summarize
    from torchstone.cli._ab_course import course_recorded
    from torchstone.storage.query import find, read_run

    summary = summarize(find(folder_of(options), options.run))
    if options.apply is not None:
        from torchstone.cli._applying import apply

        apply(options.apply, summary)
        return 0
    contested = read_run(Path(summary.record)).trials if summary.comparison is not None else ()
    course = course_recorded(contested) if summary.comparison is not None else None
    if options.json:
        from torchstone.cli._json import print_json
        from torchstone.cli._run_json import whole

        print_json(whole(summary, course))
        return 0
    from torchstone.cli._answer import in_duel, print_answer, print_tune_answer
    from torchstone.cli._report import print_report
    from torchstone.cli._run_answer import print_run_answer
    from torchstone.cli._run_blocks import print_run
    from torchstone.cli._settings_block import print_settings

    shown = summary if options.full else in_duel(summary)
    if summary.comparison is not None and course is not None:
        from torchstone.cli._ab_blocks import print_contest

        print_contest(summary.comparison, contested, summary.cases, course)
    elif summary.answer is not None:
        print_tune_answer(summary)
        print_answer(summary)
    else:
        print_run_answer(shown)
    print_run(shown, every=options.full)
    print_settings(shown)
    if options.full:
        print_report(summary)
    return 0

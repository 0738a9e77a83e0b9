"""Measure both commits of a change in one job, and write what was found into a folder: ci.json and the records."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._ci_options import FOLDER, add_limit, append_summary, limit_of, price_of, reachable
from torchstone.cli._folder import writable
from torchstone.cli._measuring import add_busy, busy_of
from torchstone.cli._program import add_program, program_request
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from torchstone.workflows.ci.benchmarks import Benchmark
    from torchstone.workflows.ci.measuring import CiAsked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ci measure."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="run files or recipes; each value of their axes is a benchmark"
    )
    parser.add_argument(
        "--base", metavar="REV", help="where the change is to be merged (default: origin/$GITHUB_BASE_REF)"
    )
    parser.add_argument("--head", metavar="REV", default="HEAD", help="the change (default: HEAD)")
    parser.add_argument(
        "--within", metavar="T", help="maximum time of all together (default: 90s a benchmark, and for the control)"
    )
    parser.add_argument("--margin", default="2%", metavar="P", help="smaller differences count as equal (default 2%%)")
    parser.add_argument(
        "--false-alarms",
        default="5%",
        metavar="P",
        help="bound on the chance of any false alarm, over all benchmarks together (default 5%%)",
    )
    parser.add_argument("--no-control", action="store_true", help="do not measure the base against itself")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the order of pairs")
    parser.add_argument("--output", type=Path, default=Path(FOLDER), metavar="DIR", help=f"default: {FOLDER}")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_limit(parser)
    add_busy(parser)
    add_program(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, show what was found, and add it to the summary of the job."""
    from torchstone.analysis.ci.assessment import assess
    from torchstone.cli._interrupts import EXIT_CODE, answered
    from torchstone.cli._render import show_document
    from torchstone.core.plain_text import plain
    from torchstone.report.ci_comment import summary_text
    from torchstone.report.documents.ci import Room, ci_document
    from torchstone.storage.ci_folder import CI_FILE, read_result
    from torchstone.workflows.ci.measuring import CiMeasurement

    def say(line: str) -> None:
        if not options.quiet:
            print(plain(" ".join(f"torchstone: {line}".split())), file=sys.stderr, flush=True)

    price, found = price_of(options), _benchmarks(options)
    folder = writable(options.output, "--output")
    if (folder / CI_FILE).exists():
        raise UsageError(f"{folder} has a result already; give another --output, or remove it")
    asked = _asked(options, len(found) + (not options.no_control))
    if note := _left_out(asked.head):
        say(note)
    try:
        with answered():
            CiMeasurement(asked, found, folder, say, busy_of(options)).carry_out(Path.cwd())
    except (KeyboardInterrupt, SystemExit):
        print(f"torchstone: interrupted: {folder} has what was measured", file=sys.stderr)
        return EXIT_CODE
    result, runs = read_result(folder)
    assessed = assess(result, runs, per_hour=price)
    append_summary(summary_text(assessed))
    show_document(ci_document(assessed, Room(1000)), every=True)
    return ExitCode.DONE


def _benchmarks(options: argparse.Namespace) -> list[Benchmark]:
    """Return the benchmarks of the files, or the one of a command. Raises UsageError."""
    from torchstone.workflows.ci.benchmarks import benchmarks, of_program

    if options.program is None:
        if not options.files:
            raise UsageError("what to measure? name run files (bench/*.yaml), or write the command behind --")
        return benchmarks(options.files)
    if options.files or options.let_finish:
        word = options.files[0] if options.files else "--let-finish"
        raise UsageError(f"{word}: not with a command, which alone says what is measured")
    return [of_program(program_request(options))]


def _asked(options: argparse.Namespace, tests: int) -> CiAsked:
    from torchstone.analysis.ci.price import within_words
    from torchstone.cli._procedure_options import at_least, positive_s
    from torchstone.core.units import share
    from torchstone.workflows.ab.revisions import committed_utc, find
    from torchstone.workflows.ci.measuring import USUAL_S, CiAsked, least_s

    here, margin = Path.cwd(), share(options.margin, "--margin")
    limit, alarms = limit_of(options), share(options.false_alarms, "--false-alarms")
    reachable(limit, margin)
    within_s = positive_s("--within", options.within) or USUAL_S * tests
    if within_s < least_s(tests):
        raise UsageError(f"--within {options.within}: {tests} comparisons need --within {within_words(least_s(tests))}")
    seed = at_least("--seed", options.seed, 0) or 0
    if alarms >= 0.5:
        raise UsageError(f"--false-alarms {options.false_alarms}: must be less than 50%")
    word = _base_word(options.base)
    head = find(options.head, here).commit
    if head is None:
        raise UsageError(f"--head {options.head}: name a commit; torchstone ab compares the work tree")
    base, why = _merge_base(word, head, here)
    return CiAsked(
        base, head, within_s, margin, margin if limit is None else limit, alarms, not options.no_control, why,
        committed_utc(head, here), seed,
    )  # fmt: skip


def _left_out(head: str) -> str | None:
    """Return that changed files are in no commit; None where there are none, or HEAD is not what is measured."""
    from torchstone.workflows.ab.revisions import find, uncommitted

    here = Path.cwd()
    changed = uncommitted(here) if find("HEAD", here).commit == head else 0
    if not changed:
        return None
    files = f"{changed} file{'s' * (changed > 1)}"
    return f"uncommitted changes of {files} are not measured, only commits (run files count as they are)"


def _base_word(given: str | None) -> str:
    branch = os.environ.get("GITHUB_BASE_REF")
    word = given or (f"origin/{branch}" if branch else None)
    if word is None:
        raise UsageError("what to compare with? add --base origin/main")
    return word


def _merge_base(word: str, head: str, here: Path) -> tuple[str | None, str | None]:
    """Return the commit to compare with; or None and why: without one nothing is measured, and nothing is green."""
    from torchstone.workflows.ab.revisions import find, is_shallow, merge_base

    try:
        base = find(word, here).commit
    except UsageError:
        if is_shallow(here):
            return None, f"{word} is not in this clone: fetch the whole history (actions/checkout: fetch-depth: 0)"
        return None, f"{word} is no branch, tag or commit of this repository (see git branch --all)"
    if base is None:
        raise UsageError(f"--base {word}: name a commit, such as origin/main")
    try:
        return merge_base(base, head, here), None
    except UsageError as fault:
        return None, str(fault)

"""May it be merged? Exit 1 only if a benchmark is proven to be slower by more than the limit, and not accepted."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from torchstone.cli._ci_options import add_event, add_result, assessment, event_of, github_of
from torchstone.core.errors import ExitCode
from torchstone.core.units import plain

_SHORT = 9  # digits of a commit

if TYPE_CHECKING:
    from torchstone.analysis.ci import Acceptance, Assessment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ci gate."""
    add_result(parser)
    add_event(parser)
    parser.add_argument(
        "--allow-no-baseline",
        action="store_true",
        help="exit 0 if only baselines are missing, as in a change that brings the first benchmarks",
    )


def run(options: argparse.Namespace) -> int:
    """Print the answer; return 0, 1 (proven slower) or 4 (something was not measured)."""
    from torchstone.analysis.ci import Conclusion
    from torchstone.report.documents.ci import ci_document, other_results

    found = assessment(options)
    if found.conclusion is Conclusion.SLOWER and (acceptance := _acceptance(options, found)) is not None:
        found = assessment(options, acceptance)
    document = ci_document(found)
    print(plain(document.title))
    print(plain(document.headline))
    if other := other_results(found):
        print(plain(other))
    print(_commits(found))
    if found.conclusion is Conclusion.SLOWER:
        return ExitCode.NO
    if found.conclusion is Conclusion.FAILED:
        return ExitCode.FAILED
    if found.conclusion is Conclusion.NO_BASELINE and not options.allow_no_baseline:
        return ExitCode.FAILED
    return ExitCode.DONE


def _commits(found: Assessment) -> str:
    """Return which commits the answer is of: the folder may be of an earlier one than is checked out."""
    head, base = found.result.head[:_SHORT], found.result.base
    return f"of {head} against {base[:_SHORT]}" if base is not None else f"of {head}"


def _acceptance(options: argparse.Namespace, found: Assessment) -> Acceptance | None:
    """Return whether the slowdown was accepted by now; None where the job may not ask, or is about no pull request."""
    if not os.environ.get("GITHUB_TOKEN") or not (options.event or os.environ.get("GITHUB_EVENT_PATH")):
        return None
    from torchstone.workflows.ci.github import find

    name = options.event_name or os.environ.get("GITHUB_EVENT_NAME")
    if name not in ("pull_request", "pull_request_target", "workflow_run"):
        return None
    event = event_of(options)
    if event.head != found.result.head:
        return None
    asked = find(github_of(event), event, options.accept_label)
    return asked.acceptance if asked is not None else None

"""What the words of `ci` share: the folder of results, the limit, and the job that GitHub has started."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.analysis.ci import Acceptance, Assessment
    from torchstone.workflows.ci.github import Event, GitHub

FOLDER = "torchstone-ci"
LABEL = "performance-accepted"


def add_result(parser: argparse.ArgumentParser) -> None:
    """Add the folder that is read, and how it is judged."""
    parser.add_argument(
        "result",
        nargs="?",
        type=Path,
        default=Path(FOLDER),
        metavar="DIR",
        help=f"what `ci measure` wrote, or the artifact of its job (default: {FOLDER})",
    )
    add_limit(parser)


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Add the limit, and the price of the machine."""
    parser.add_argument(
        "--fail-on",
        metavar="worse:P",
        help="limit: a change may be slower by no more (default: the equivalence margin of the measurement)",
    )
    parser.add_argument("--price-per-hour", type=float, metavar="P", help="price of the machine, for what is undecided")


def add_event(parser: argparse.ArgumentParser) -> None:
    """Add what GitHub tells a job; its variables are the defaults."""
    parser.add_argument("--event", type=Path, metavar="FILE", help="the event of the job (default: $GITHUB_EVENT_PATH)")
    parser.add_argument("--event-name", metavar="NAME", help="its name (default: $GITHUB_EVENT_NAME)")
    parser.add_argument(
        "--accept-label",
        default=LABEL,
        metavar="LABEL",
        help=f"label that accepts a slower change whose description has a line 'Slower because: …' (default: {LABEL})",
    )


def limit_of(options: argparse.Namespace) -> float | None:
    """Return the limit that --fail-on gives; None without one. Raises UsageError."""
    from torchstone.core.units import share

    if options.fail_on is None:
        return None
    word, colon, limit = options.fail_on.partition(":")
    if word != "worse" or not colon:
        raise UsageError(f"--fail-on {options.fail_on}: write worse:5%")
    return share(limit, "--fail-on worse")


def reachable(limit: float | None, margin: float) -> None:
    """Raise UsageError for a limit below the equivalence margin: what counts as equal would exceed it."""
    if limit is not None and limit < margin:
        finer = f"--margin {100.0 * limit:g}% of torchstone ci measure"
        raise UsageError(f"--fail-on worse:{100.0 * limit:g}%: below the margin of {100.0 * margin:g}%; needs {finer}")


def price_of(options: argparse.Namespace) -> float | None:
    """Return the price of an hour. Raises UsageError for one that is none."""
    price: float | None = options.price_per_hour
    if price is not None and not 0.0 <= price < 1e6:
        raise UsageError(f"--price-per-hour {price:g}: write a price such as 2.5")
    return price


def assessment(options: argparse.Namespace, acceptance: Acceptance | None = None) -> Assessment:
    """Return what the folder shows. Raises UsageError where it is not what `ci measure` writes."""
    from torchstone.analysis.ci import assess
    from torchstone.storage.ci_folder import read_result

    limit, price = limit_of(options), price_of(options)
    result, runs = read_result(options.result)
    reachable(limit, result.margin)
    return assess(result, runs, limit=limit, per_hour=price, acceptance=acceptance)


def event_of(options: argparse.Namespace) -> Event:
    """Return the event of the job. Raises UsageError outside of one."""
    from torchstone.workflows.ci.github import read_event

    path = options.event or os.environ.get("GITHUB_EVENT_PATH")
    name = options.event_name or os.environ.get("GITHUB_EVENT_NAME")
    if not path or not name:
        raise UsageError("no event: run this in a job of GitHub, or give --event FILE --event-name pull_request")
    return read_event(Path(path), name)


def github_of(event: Event) -> GitHub:
    """Return the repository of the event, with the token of the environment. Raises UsageError without one."""
    from torchstone.workflows.ci.github import PUBLIC, GitHub

    token = os.environ.get("GITHUB_TOKEN", "")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("no token: set GITHUB_TOKEN, in a workflow by `env: {GITHUB_TOKEN: ${{ github.token }}}`")
    return GitHub(event.repository, token, os.environ.get("GITHUB_API_URL") or PUBLIC)


def append_summary(text: str) -> None:
    """Add Markdown to the summary of the job; nothing outside of one. Raises UsageError where it cannot be written."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as fault:
        raise UsageError(f"cannot write the summary of the job, {path}: {fault.strerror}") from None

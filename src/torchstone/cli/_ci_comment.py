"""Comment on the pull request that a job is about; the artifact of a fork's job is read as untrusted data."""

from __future__ import annotations

import argparse
import os
import re

from torchstone.cli._ci_options import add_event, add_result, append_summary, assessment, event_of, github_of
from torchstone.core.errors import ExitCode, UsageError
from torchstone.core.units import plain

_ROBOT = "github-actions[bot]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ci comment."""
    add_result(parser)
    add_event(parser)
    parser.add_argument(
        "--key", default="default", metavar="WORD", help="tells the comments of several jobs from each other"
    )
    parser.add_argument(
        "--always", action="store_true", help="comment even if nothing was decided (default: only edit a comment then)"
    )
    parser.add_argument(
        "--check",
        nargs="?",
        const="torchstone",
        metavar="NAME",
        help="set a check of the commit, too: success, failure, or neutral (needs `checks: write`)",
    )
    parser.add_argument(
        "--author", default=_ROBOT, metavar="LOGIN", help=f"who comments: whose token it is (default: {_ROBOT})"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the text of the comment, and send nothing")


def run(options: argparse.Namespace) -> int:
    """Comment; print what was done."""
    from torchstone.report.ci_comment import comment_text, marker, summary_text
    from torchstone.workflows.ci.github import Posted, check, find, post

    marker(options.key)  # before anything is read or sent
    if options.dry_run:
        print(comment_text(assessment(options), options.key, _link()), end="")
        return ExitCode.DONE
    event, found = event_of(options), assessment(options)
    if found.result.head != event.head:
        raise UsageError(
            f"{options.result} is of commit {found.result.head[:9]}, but the job is about {event.head[:9]}: not used"
        )
    github = github_of(event)
    asked = find(github, event, options.accept_label)
    if asked is None:
        print(f"torchstone: no open pull request has {event.head[:9]} as its newest commit: no comment")
        return ExitCode.DONE
    if asked.acceptance is not None:
        found = assessment(options, asked.acceptance)
    if event.number is None:  # a job of its own: the one that measured has a summary already
        append_summary(summary_text(found))
    create = options.always or found.is_decided
    text = comment_text(found, options.key, _link())
    done, address = post(github, asked.number, text, options.author, create=create)
    if options.check is not None:
        from torchstone.report.documents.ci import ci_document

        check(github, event.head, options.check, found.conclusion, ci_document(found).title, text)
    quiet = " (nothing was decided; --always comments all the same)" if done is Posted.NOTHING else ""
    print(plain(f"torchstone: #{asked.number}: {done}{quiet}{f' {address}' if address else ''}"))
    return ExitCode.DONE


def _link() -> str | None:
    """Return the address of the job's run; None outside of one."""
    server, repository, run = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    address = f"{server}/{repository}/actions/runs/{run}"
    return address if re.fullmatch(r"https?://[A-Za-z0-9.:-]+/[A-Za-z0-9._/-]+/actions/runs/\d+", address) else None

"""Did a change slow it down? Both commits measured in one job, one comment on the pull request, a gate, a history.

torchstone ci measure bench/*.yaml --base origin/main     both commits, interleaved; writes torchstone-ci
torchstone ci measure --base main -- python train.py      the same of a program as you type it
torchstone ci comment                                     one comment on the pull request, edited in place
torchstone ci gate                                        exit 1 only if a benchmark is proven to be slower
torchstone ci history --push origin                       one file a commit, on a branch of its own
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._measuring import add_busy, busy_of, interruptible
from torchstone.cli._output import show_document
from torchstone.cli._parsing import Parser
from torchstone.cli._place import writable
from torchstone.cli._run_options import add_program, at_least, positive_s, program_request
from torchstone.core.errors import ExitCode, UsageError
from torchstone.core.units import plain, share

MEASURES_PROGRAMS = True  # behind --

if TYPE_CHECKING:
    from torchstone.analysis.ci import Acceptance, Assessment
    from torchstone.workflows.ci.github import Event, GitHub
    from torchstone.workflows.ci.measuring import BenchmarkSpec, CiRequest

_FOLDER = "torchstone-ci"
_LABEL = "performance-accepted"
_ROBOT = "github-actions[bot]"
_SHORT = 9  # digits of a commit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the four words of ci, each with its options."""
    words = parser.add_subparsers(dest="word", metavar=" | ".join(_WORDS), parser_class=Parser, required=True)
    for word, (meaning, add, _) in _WORDS.items():
        add(words.add_parser(word, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}."))


def run(options: argparse.Namespace) -> int:
    """Run the word that was typed."""
    if options.program is not None and options.word != "measure":
        raise UsageError(f"ci {options.word} takes no command: torchstone ci measure --base REV -- COMMAND measures it")
    return _WORDS[options.word][2](options)


# ── ci measure ──────────────────────────────────────────────────────────────────────────────────────────────


def _add_measure(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--output", type=Path, default=Path(_FOLDER), metavar="DIR", help=f"default: {_FOLDER}")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    _add_limit(parser)
    add_busy(parser)
    add_program(parser)


def _measure(options: argparse.Namespace) -> int:
    """Measure, print the assessment, and add it to the summary of the job."""
    from torchstone.report.documents.ci import RowLimits, ci_document, summary_text
    from torchstone.storage.ci_folder import CI_FILE
    from torchstone.workflows.ci.measuring import CiMeasurement

    def say(line: str) -> None:
        if not options.quiet:
            print(plain(" ".join(f"torchstone: {line}".split())), file=sys.stderr, flush=True)

    price, listed = _price(options), _benchmarks(options)
    folder = writable(options.output, "--output")
    if (folder / CI_FILE).exists():
        raise UsageError(f"{folder} has a result already; give another --output, or remove it")
    request = _measure_request(options, len(listed) + (not options.no_control))
    if note := _uncommitted_note(request.head):
        say(note)
    try:
        with interruptible():
            CiMeasurement(request, listed, folder, say, busy_of(options)).carry_out(Path.cwd())
    except KeyboardInterrupt:
        print(f"torchstone: interrupted: {folder} has what was measured", file=sys.stderr)
        return ExitCode.INTERRUPTED
    assessed = _assess(folder, None, price)
    _append_summary(summary_text(assessed))
    show_document(ci_document(assessed, RowLimits(1000)), every=True)
    return ExitCode.DONE


def _benchmarks(options: argparse.Namespace) -> list[BenchmarkSpec]:
    """Return the benchmarks of the files, or the one of a command. Raises UsageError."""
    from torchstone.workflows.ci.measuring import benchmarks, of_program

    if options.program is None:
        if not options.files:
            raise UsageError("what to measure? name run files (bench/*.yaml), or write the command behind --")
        return benchmarks(options.files)
    if options.files or options.let_finish:
        word = options.files[0] if options.files else "--let-finish"
        raise UsageError(f"{word}: not with a command, which alone says what is measured")
    return [of_program(program_request(options))]


def _measure_request(options: argparse.Namespace, tests: int) -> CiRequest:
    from torchstone.analysis.ci import within_words
    from torchstone.workflows.ab.sides import committed_utc, find
    from torchstone.workflows.ci.measuring import USUAL_S, CiRequest, least_s

    here, margin = Path.cwd(), share(options.margin, "--margin")
    limit, alarms = _limit(options), share(options.false_alarms, "--false-alarms")
    _check_limit(limit, margin)
    within_s = positive_s("--within", options.within) or USUAL_S * tests
    if within_s < least_s(tests):
        raise UsageError(f"--within {options.within}: {tests} comparisons need --within {within_words(least_s(tests))}")
    seed = at_least("--seed", options.seed, 0) or 0
    if alarms >= 0.5:
        raise UsageError(f"--false-alarms {options.false_alarms}: must be less than 50%")
    if (branch := os.environ.get("GITHUB_BASE_REF")) and not options.base:
        options.base = f"origin/{branch}"
    if not options.base:
        raise UsageError("what to compare with? add --base origin/main")
    head = find(options.head, here).commit
    if head is None:
        raise UsageError(f"--head {options.head}: name a commit; torchstone ab compares the work tree")
    base, why = _merge_base(options.base, head, here)
    return CiRequest(
        base,
        head,
        within_s,
        margin,
        margin if limit is None else limit,
        alarms,
        not options.no_control,
        why,
        committed_utc(head, here),
        seed,
    )


def _uncommitted_note(head: str) -> str | None:
    """Return that changed files are in no commit; None where there are none, or HEAD is not what is measured."""
    from torchstone.workflows.ab.sides import find, uncommitted

    here = Path.cwd()
    changed = uncommitted(here) if find("HEAD", here).commit == head else 0
    if not changed:
        return None
    files = f"{changed} file{'s' * (changed > 1)}"
    return f"uncommitted changes of {files} are not measured, only commits (run files count as they are)"


def _merge_base(word: str, head: str, here: Path) -> tuple[str | None, str | None]:
    """Return the commit to compare with; or None and why: without one nothing is measured, and nothing is green."""
    from torchstone.workflows.ab.sides import find, is_shallow, merge_base

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


# ── ci comment, by a job that may be another one: the folder is then read as data of a stranger ─────────────


def _add_comment(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    _add_event(parser)
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


def _comment(options: argparse.Namespace) -> int:
    """Comment; print what was done."""
    from torchstone.report.documents.ci import comment_text, marker, summary_text
    from torchstone.workflows.ci.github import Posted, find_pull_request, post, set_check

    marker(options.key)  # before anything is read or sent
    if options.dry_run:
        print(comment_text(_assess_result(options), options.key, _link()), end="")
        return ExitCode.DONE
    event, assessed = _event(options), _assess_result(options)
    head = event.head[:_SHORT]
    if assessed.result.head != event.head:
        raise UsageError(
            f"{options.result} is of commit {assessed.result.head[:_SHORT]}, but the job is about {head}: not used"
        )
    github = _github(event)
    request = find_pull_request(github, event, options.accept_label)
    if request is None:
        print(f"torchstone: no open pull request has {head} as its newest commit: no comment")
        return ExitCode.DONE
    if request.acceptance is not None:
        assessed = _assess_result(options, request.acceptance)
    if event.number is None:  # a job of its own: the one that measured has a summary already
        _append_summary(summary_text(assessed))
    create = options.always or assessed.is_decided
    text = comment_text(assessed, options.key, _link())
    done, address = post(github, request.number, text, options.author, create=create)
    if options.check is not None:
        from torchstone.report.documents.ci import ci_document

        set_check(github, event.head, options.check, assessed.conclusion, ci_document(assessed).title, text)
    quiet = " (nothing was decided; --always comments all the same)" if done is Posted.NOTHING else ""
    print(plain(f"torchstone: #{request.number}: {done}{quiet}{f' {address}' if address else ''}"))
    return ExitCode.DONE


def _link() -> str | None:
    """Return the address of the job's run; None outside of one."""
    server, repository, run = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    address = f"{server}/{repository}/actions/runs/{run}"
    return address if re.fullmatch(r"https?://[A-Za-z0-9.:-]+/[A-Za-z0-9._/-]+/actions/runs/\d+", address) else None


if TYPE_CHECKING:
    from torchstone.analysis.ci import Acceptance, Assessment


# ── ci gate ─────────────────────────────────────────────────────────────────────────────────────────────────


def _add_gate(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    _add_event(parser)
    parser.add_argument(
        "--allow-no-baseline",
        action="store_true",
        help="exit 0 if only baselines are missing, as in a change that brings the first benchmarks",
    )


def _gate(options: argparse.Namespace) -> int:
    """Print the answer; return 0, 1 (proven slower) or 4 (something was not measured)."""
    from torchstone.analysis.ci import Conclusion
    from torchstone.report.documents.ci import changed_results, ci_document

    assessed = _assess_result(options)
    if assessed.conclusion is Conclusion.SLOWER and (acceptance := _acceptance(options, assessed)) is not None:
        assessed = _assess_result(options, acceptance)
    document = ci_document(assessed)
    print(plain(document.title))
    print(plain(document.headline))
    if other := changed_results(assessed):
        print(plain(other))
    # The commits too: the folder may be of an earlier one than is checked out.
    head, base = assessed.result.head[:_SHORT], assessed.result.base
    print(f"of {head} against {base[:_SHORT]}" if base is not None else f"of {head}")
    if assessed.conclusion is Conclusion.SLOWER:
        return ExitCode.NO
    missing = assessed.conclusion is Conclusion.NO_BASELINE and not options.allow_no_baseline
    return ExitCode.FAILED if missing or assessed.conclusion is Conclusion.FAILED else ExitCode.DONE


def _acceptance(options: argparse.Namespace, assessed: Assessment) -> Acceptance | None:
    """Return whether the slowdown was accepted by now; None where the job may not ask, or is about no pull request."""
    if not os.environ.get("GITHUB_TOKEN") or not (options.event or os.environ.get("GITHUB_EVENT_PATH")):
        return None
    from torchstone.workflows.ci.github import find_pull_request

    name = options.event_name or os.environ.get("GITHUB_EVENT_NAME")
    if name not in ("pull_request", "pull_request_target", "workflow_run"):
        return None
    event = _event(options)
    if event.head != assessed.result.head:
        return None
    request = find_pull_request(_github(event), event, options.accept_label)
    return request.acceptance if request is not None else None


# ── ci history ──────────────────────────────────────────────────────────────────────────────────────────────


def _add_history(parser: argparse.ArgumentParser) -> None:
    _add_result(parser)
    parser.add_argument(
        "--branch", default="torchstone-history", metavar="NAME", help="of the history (default: torchstone-history)"
    )
    parser.add_argument("--push", metavar="REMOTE", help="fetch the branch from there first, and push it")


def _history(options: argparse.Namespace) -> int:
    """Add the entry; print whether it was new."""
    from torchstone.analysis.ci import history_entry
    from torchstone.workflows.ci.history_branch import add

    entry = history_entry(_assess_result(options))
    new = add(entry, Path.cwd(), options.branch, options.push)
    where = f"{options.push}/{options.branch}" if options.push else options.branch
    what = "added" if new else "is there already, and stays as it is"
    print(f"torchstone: {where}: commits/{entry.commit}.json {what}")
    return ExitCode.DONE


# ── what the words share ────────────────────────────────────────────────────────────────────────────────────


def _add_result(parser: argparse.ArgumentParser) -> None:
    """Add the folder that is read, and how it is judged."""
    parser.add_argument(
        "result",
        nargs="?",
        type=Path,
        default=Path(_FOLDER),
        metavar="DIR",
        help=f"what `ci measure` wrote, or the artifact of its job (default: {_FOLDER})",
    )
    _add_limit(parser)


def _add_limit(parser: argparse.ArgumentParser) -> None:
    """Add the limit, and the price of the machine."""
    parser.add_argument(
        "--fail-on",
        metavar="worse:P",
        help="limit: a change may be slower by no more (default: the equivalence margin of the measurement)",
    )
    parser.add_argument("--price-per-hour", type=float, metavar="P", help="price of the machine, for what is undecided")


def _add_event(parser: argparse.ArgumentParser) -> None:
    """Add what GitHub tells a job; its variables are the defaults."""
    parser.add_argument("--event", type=Path, metavar="FILE", help="the event of the job (default: $GITHUB_EVENT_PATH)")
    parser.add_argument("--event-name", metavar="NAME", help="its name (default: $GITHUB_EVENT_NAME)")
    parser.add_argument(
        "--accept-label",
        default=_LABEL,
        metavar="LABEL",
        help=f"label that accepts a slower change whose description has a line 'Slower because: …' (default: {_LABEL})",
    )


def _limit(options: argparse.Namespace) -> float | None:
    """Return the limit that --fail-on gives; None without one. Raises UsageError."""
    if options.fail_on is None:
        return None
    word, colon, limit = options.fail_on.partition(":")
    if word != "worse" or not colon:
        raise UsageError(f"--fail-on {options.fail_on}: write worse:5%")
    return share(limit, "--fail-on worse")


def _check_limit(limit: float | None, margin: float) -> None:
    """Raise UsageError for a limit below the equivalence margin: what counts as equal would exceed it."""
    if limit is not None and limit < margin:
        finer = f"--margin {100.0 * limit:g}% of torchstone ci measure"
        raise UsageError(f"--fail-on worse:{100.0 * limit:g}%: below the margin of {100.0 * margin:g}%; needs {finer}")


def _price(options: argparse.Namespace) -> float | None:
    """Return the price of an hour. Raises UsageError for one that is none."""
    price: float | None = options.price_per_hour
    if price is not None and not 0.0 <= price < 1e6:
        raise UsageError(f"--price-per-hour {price:g}: write a price such as 2.5")
    return price


def _assess_result(options: argparse.Namespace, acceptance: Acceptance | None = None) -> Assessment:
    return _assess(options.result, _limit(options), _price(options), acceptance)


def _assess(folder: Path, limit: float | None, price: float | None, acceptance: Acceptance | None = None) -> Assessment:
    """Return what the folder shows. Raises UsageError where it is not what `ci measure` writes."""
    from torchstone.analysis.ci import assess
    from torchstone.storage.ci_folder import read_ci_result

    result, runs = read_ci_result(folder)
    _check_limit(limit, result.margin)
    return assess(result, runs, limit=limit, per_hour=price, acceptance=acceptance)


def _event(options: argparse.Namespace) -> Event:
    """Return the event of the job. Raises UsageError outside of one."""
    from torchstone.workflows.ci.github import read_event

    path = options.event or os.environ.get("GITHUB_EVENT_PATH")
    name = options.event_name or os.environ.get("GITHUB_EVENT_NAME")
    if not path or not name:
        raise UsageError("no event: run this in a job of GitHub, or give --event FILE --event-name pull_request")
    return read_event(Path(path), name)


def _github(event: Event) -> GitHub:
    """Return the repository of the event, with the token of the environment. Raises UsageError without one."""
    from torchstone.workflows.ci.github import PUBLIC, GitHub

    token = os.environ.get("GITHUB_TOKEN", "")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("no token: set GITHUB_TOKEN, in a workflow by `env: {GITHUB_TOKEN: ${{ github.token }}}`")
    return GitHub(event.repository, token, os.environ.get("GITHUB_API_URL") or PUBLIC)


def _append_summary(text: str) -> None:
    """Add Markdown to the summary of the job; nothing outside of one. Raises UsageError where it cannot be written."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as fault:
        raise UsageError(f"cannot write the summary of the job, {path}: {fault.strerror}") from None


_WORDS = {
    "measure": ("measure both commits of a change in one job, interleaved, within one budget", _add_measure, _measure),
    "comment": ("comment on the pull request: one comment, found again and edited in place", _add_comment, _comment),
    "gate": ("exit 1 if a benchmark is proven to be slower by more than the limit", _add_gate, _gate),
    "history": ("keep the result of a commit as one file on a branch of its own", _add_history, _history),
}

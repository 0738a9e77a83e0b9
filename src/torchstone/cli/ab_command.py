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
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.analysis.compare.ab_sides import is_narrow
from torchstone.cli._measuring import ProgressLines, add_busy, busy_of, interruptible, show_measured
from torchstone.cli._output import StatusLine, add_json, print_json, run_json
from torchstone.cli._parsing import split_words
from torchstone.cli._place import add_folder, folder_of, writable
from torchstone.cli._run_options import (
    add_program,
    add_run_options,
    positive_s,
    program_request,
    program_values,
    request_from,
)
from torchstone.config.recipe_files import is_recipe
from torchstone.core.errors import ExitCode, UsageError
from torchstone.core.schema.axis import AXES, Scalar, axis_named
from torchstone.core.schema.comparison import Comparison, Judgement, Rules
from torchstone.core.units import change, share
from torchstone.execution.program.workspace import add_untracked
from torchstone.workflows.ab.experiment import ExperimentProgress, as_ab_does
from torchstone.workflows.ab.sides import Revision, checked_out, find, uncommitted

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.ab.sides import SideRequest

MEASURES_PROGRAMS = True  # behind --


class AbProgress(ProgressLines):
    """A line on stderr, where that is a terminal, that shows the estimate so far; and lines that stay."""

    def __init__(self, rules: Rules, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._rules, self._status = rules, StatusLine(quiet=quiet)

    def show(self, progress: ExperimentProgress) -> None:
        """Draw the line."""
        look = progress.last
        estimate = "…"
        if look is not None and is_narrow(look.low, look.high):
            estimate = f"B takes {change(look.value)} [{change(look.low)}, {change(look.high)}]"
        within = f" of {self._rules.budget_s:.0f}" if progress.elapsed_s <= self._rules.budget_s else ""
        pairs = f"{progress.pairs} pair{'s' * (progress.pairs != 1)}"
        self._status.show(f"{pairs}, {progress.elapsed_s:.0f}{within} s: {estimate}")

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.close()
        super().say(f"torchstone: {text}")

    def close(self) -> None:
        """Wipe the line."""
        self._status.wipe()


_GATES = (Judgement.WORSE, Judgement.UNCLEAR, Judgement.BETTER)


def rules_of(options: argparse.Namespace) -> Rules:
    """Return the rules that the flags give. Raises UsageError."""
    alarms = share(options.false_alarms, "--false-alarms")
    if not 0.0 < alarms < 0.5:
        raise UsageError(f"--false-alarms {options.false_alarms}: must be more than 0 and less than 50%")
    within_s = positive_s("--within", options.within) or 60.0
    return Rules(share(options.margin, "--margin"), alarms, within_s, options.seed or 0)


def gate_of(options: argparse.Namespace) -> tuple[dict[Judgement, float], list[str]]:
    """Return the verdicts that --fail-on names, each with the relative change that it must exceed; and the sides.

    The option takes several words: what is none of them is a side, as in `ab --fail-on worse main HEAD`. Raises
    UsageError where that makes too many.
    """
    gate: dict[Judgement, float] = {}
    others: list[str] = []
    for text in options.fail_on or ():
        words = [word.partition(":") for word in split_words([text])]
        if not words or not all(verdict in _GATES and (not colon or verdict == "worse") for verdict, colon, _ in words):
            others.append(text)
            continue
        for verdict, colon, margin in words:
            gate[Judgement(verdict)] = share(margin, "--fail-on worse") if colon else 0.0
    if others and (not gate or (options.sides and len(options.sides) + len(others) > 2)):
        raise UsageError(f"--fail-on {others[0]}: write worse, worse:5%, unclear or better")
    return gate, [*options.sides, *others]


@contextmanager
def sides_of(options: argparse.Namespace, words: Sequence[str]) -> Iterator[tuple[SideRequest, SideRequest]]:
    """Give the two sides; work trees of revisions are there as long as this is entered. Raises UsageError."""
    if options.program is not None:
        with ExitStack() as until_then:
            yield _of_programs(words, options, until_then)
        return
    own = _settings("--a", options.a), _settings("--b", options.b)
    if len(words) > 2:
        raise UsageError(f"ab compares two sides, got {len(words)}: {' '.join(words)}")
    with ExitStack() as until_then:
        if len(words) == 2 and not all(map(is_recipe, words)):
            yield _of_revisions(words, own, options, until_then)
        elif len(words) == 2:
            yield _of_recipes(words, own, options)
        else:
            yield _of_settings(words, own, options)


def _of_settings(
    words: Sequence[str], own: tuple[Mapping[str, Scalar], Mapping[str, Scalar]], options: argparse.Namespace
) -> tuple[SideRequest, SideRequest]:
    from torchstone.workflows.ab.sides import SideRequest, with_settings

    if not any(own):
        raise UsageError("both sides are equal: give each a setting, for example --a precision=fp32 --b precision=bf16")
    request = _ab_request(options, words[0] if words else None)
    a, b = (
        SideRequest(_label(mine, other), with_settings(request, mine, other))
        for mine, other in ((own[0], own[1]), (own[1], own[0]))
    )
    if a.request == b.request:
        raise UsageError(f"both sides are equal ({a.label}); to compare equal code, type torchstone ab FILE FILE")
    return a, b


def _of_recipes(
    words: Sequence[str], own: tuple[Mapping[str, Scalar], Mapping[str, Scalar]], options: argparse.Namespace
) -> tuple[SideRequest, SideRequest]:
    from torchstone.workflows.ab.sides import SideRequest, with_settings

    if options.config or options.model:
        raise UsageError("two recipes or files already say what to compare: leave out --config and --model")
    sides = []
    for word, mine in zip(words, own, strict=True):
        request = _ab_request(options, word)
        sides.append(SideRequest(word, with_settings(request, mine, {}) if mine else request))
    return sides[0], sides[1]


def _of_revisions(
    words: Sequence[str],
    own: tuple[Mapping[str, Scalar], Mapping[str, Scalar]],
    options: argparse.Namespace,
    until_then: ExitStack,
) -> tuple[SideRequest, SideRequest]:
    from torchstone.workflows.ab.sides import SideRequest, with_settings

    here = Path.cwd()
    revisions = [find(word, here) for word in words if not is_recipe(word)]
    if len(revisions) < len(words):
        raise UsageError(f"'{words[0]}' and '{words[1]}': give two recipes or files, or two revisions, not one of each")
    if options.config is None and options.model is None:
        raise UsageError("two revisions need a workload: --task train --model py:model.py:load, or --config FILE")
    request = _ab_request(options)
    _mention_uncommitted(revisions, here)
    sides = []
    for revision, mine, other in zip(revisions, own, reversed(own), strict=True):
        folder = until_then.enter_context(checked_out(revision, here))
        settled = with_settings(request, mine, other) if any(own) else request
        sides.append(SideRequest(revision.label, settled, folder, revision.commit or "work tree"))
    return sides[0], sides[1]


def _of_programs(
    words: Sequence[str], options: argparse.Namespace, until_then: ExitStack
) -> tuple[SideRequest, SideRequest]:
    """Return the sides of commands: two revisions, two commands with -- between, or two settings of its axes."""
    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.ab.sides import SideRequest

    if options.let_finish:
        raise UsageError("--let-finish: not in ab, whose programs are ended after their turns")
    typed = options.program
    settings = [_settings(f"--{side}", getattr(options, side), of_program=True) for side in "ab"]
    commands = [typed, typed]
    if is_two := "--" in typed and not words:
        place = typed.index("--")
        commands = [typed[:place], typed[place + 1 :]]
    forms = bool(words), is_two, any(settings)
    if sum(forms) != 1 or len(words) not in (0, 2):
        raise UsageError(
            "ab of a program compares two revisions (ab main HEAD -- COMMAND), two commands (ab -- COMMAND -- COMMAND) "
            "or two settings (ab --a NAME=V --b NAME=V -- COMMAND, with {NAME} in it): give one of these"
        )
    programs = [program_request(options, command) for command in commands]
    programs = [
        msgspec.structs.replace(one, axes={**one.axes, **{name: (value,) for name, value in own.items()}})
        for one, own in zip(programs, settings, strict=True)
    ]
    request = RunRequest(
        workloads=(), name=programs[0].name, device=programs[0].device, procedure=programs[0].procedure
    )
    if words:
        folders = _folders_of(words, until_then)
        a, b = (
            SideRequest(revision.label, request, folder, revision.commit or "work tree", program)
            for (revision, folder), program in zip(folders, programs, strict=True)
        )
        return a, b
    labels = [shlex.join(command) for command in commands]
    if any(settings):
        labels = [" ".join(f"{name}={value}" for name, value in own.items()) for own in settings]
    a, b = (SideRequest(label, request, program=one) for label, one in zip(labels, programs, strict=True))
    return a, b


def _folders_of(words: Sequence[str], until_then: ExitStack) -> Iterator[tuple[Revision, Path]]:
    """Yield two revisions, each with its work tree, into which comes what git does not track here."""
    here = Path.cwd()
    revisions = [find(word, here) for word in words]
    _mention_uncommitted(revisions, here)
    for revision in revisions:
        folder = until_then.enter_context(checked_out(revision, here))
        if folder != here:
            add_untracked(here, folder)
        yield revision, folder


def _mention_uncommitted(revisions: Sequence[Revision], here: Path) -> None:
    if all(one.commit for one in revisions) and (changed := uncommitted(here)):
        files = f"{changed} file{'s' * (changed > 1)}"
        note = f"uncommitted changes of {files} are in neither side; use `.` for the work tree"
        print(f"torchstone: {note}", file=sys.stderr)


def _ab_request(options: argparse.Namespace, recipe: str | None = None) -> RunRequest:
    """Return the request that the flags make; huge pages and pinned threads are the default here.

    Where a process has much memory, where its pages lie is the largest part of what pairs differ by; where it has
    several threads, where they wake up for the next turn.
    """
    request = request_from(options, recipe)
    how = request.procedure
    typed = {"heap": options.heap, "pin_threads": options.pin_threads}
    given = {name: value for name, value in typed.items() if value is not None}
    return msgspec.structs.replace(request, procedure=msgspec.structs.replace(as_ab_does(how), **given))


def _settings(flag: str, texts: Sequence[str] | None, *, of_program: bool = False) -> dict[str, Scalar]:
    settings: dict[str, Scalar] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise UsageError(f"{flag} {text}: write NAME=VALUE, for example precision=bf16")
        settings[name] = (
            program_values(name, value)[0] if of_program else axis_named(name).parse(value, f"{flag} {name}")
        )
    return settings


def _label(mine: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> str:
    """Return what a side is called: its settings, and in the place of those that only the other has, the default."""
    whole = {**{name: AXES[name].default for name in other}, **mine}
    return " ".join(f"{name}={value}" for name, value in whole.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ab."""
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="two recipes, files or git revisions; or one recipe (or --model) with --a and --b",
    )
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
        "--fail-on",
        nargs="+",
        action="extend",
        metavar="VERDICT",
        help="for CI: exit 1 if B is worse, worse:5%% (by more than 5 %%), unclear or better, or if a side fails",
    )
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_busy(parser)
    add_run_options(parser, sides=True)
    add_program(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Compare, and print the answer."""
    from torchstone.execution.timing.clock import system_clock
    from torchstone.workflows.ab.live_comparison import AbCampaign

    began_s = system_clock()
    gate, words = gate_of(options)
    folder, rules, busy = writable(folder_of(options)), rules_of(options), busy_of(options)
    progress = AbProgress(rules, quiet=options.quiet)
    try:
        with interruptible(), sides_of(options, words) as sides:
            try:
                strict = options.within is not None
                campaign = AbCampaign(sides, rules, tell=progress.show, busy=busy, strict=strict, say=progress.say)
                results, ended = campaign.carry_out(folder, sys.argv[1:], began_s)
            finally:
                progress.close()
    except KeyboardInterrupt:
        print("torchstone: interrupted: an incomplete ab has no result", file=sys.stderr)
        return ExitCode.INTERRUPTED
    summary = results.summary
    if options.json:
        print_json(run_json(summary))
    else:
        show_measured(results)
    return ExitCode.NO if not ended.pairs or fails(ended.comparison, gate) else ExitCode.DONE


def fails(comparison: Comparison, gate: Mapping[Judgement, float]) -> bool:
    """Say whether a gate closes (gate_of), or a side failed: then what B costs was not measured."""
    if comparison.verdict == Judgement.NOT_COMPARABLE:
        return True
    least = gate.get(comparison.verdict)
    if not least or comparison.ratio is None:
        return least is not None
    return max(comparison.ratio.value, 1.0 / comparison.ratio.value) > 1.0 + least

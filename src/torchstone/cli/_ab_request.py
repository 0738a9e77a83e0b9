"""From the words of `ab` to its two sides: recipes, files, settings, or git revisions."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.cli._parsing import words_of
from torchstone.cli._procedure_options import positive_s
from torchstone.cli._program import program_request, values_of
from torchstone.cli._run_options import asked
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar, axis_named
from torchstone.core.schema.comparison import Judgement, Rules
from torchstone.execution.program.workspace import add_untracked
from torchstone.workflows.ab.experiment import as_ab_does
from torchstone.workflows.ab.revisions import Revision, checked_out, find, uncommitted

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.ab.sides import SideRequest


_GATES = (Judgement.WORSE, Judgement.UNCLEAR, Judgement.BETTER)


def rules_of(options: argparse.Namespace) -> Rules:
    """Return the rules that the flags give. Raises UsageError."""
    from torchstone.config.durations import share

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
    from torchstone.config.durations import share

    gate: dict[Judgement, float] = {}
    others: list[str] = []
    for text in options.fail_on or ():
        words = [word.partition(":") for word in words_of([text])]
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
        if len(words) == 2 and not all(map(_is_recipe, words)):
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
    request = _asked(options, words[0] if words else None)
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
        request = _asked(options, word)
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
    found = [find(word, here) for word in words if not _is_recipe(word)]
    if len(found) < len(words):
        raise UsageError(f"'{words[0]}' and '{words[1]}': give two recipes or files, or two revisions, not one of each")
    if options.config is None and options.model is None:
        raise UsageError("two revisions need a workload: --task train --model py:model.py:load, or --config FILE")
    request = _asked(options)
    _mention_uncommitted(found, here)
    sides = []
    for revision, mine, other in zip(found, own, reversed(own), strict=True):
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
    asked = RunRequest(workloads=(), name=programs[0].name, device=programs[0].device, procedure=programs[0].procedure)
    if words:
        folders = _folders_of(words, until_then)
        a, b = (
            SideRequest(revision.label, asked, folder, revision.commit or "work tree", program)
            for (revision, folder), program in zip(folders, programs, strict=True)
        )
        return a, b
    labels = [shlex.join(command) for command in commands]
    if any(settings):
        labels = [" ".join(f"{name}={value}" for name, value in own.items()) for own in settings]
    a, b = (SideRequest(label, asked, program=one) for label, one in zip(labels, programs, strict=True))
    return a, b


def _folders_of(words: Sequence[str], until_then: ExitStack) -> Iterator[tuple[Revision, Path]]:
    """Yield two revisions, each with its work tree, into which comes what git does not track here."""
    here = Path.cwd()
    found = [find(word, here) for word in words]
    _mention_uncommitted(found, here)
    for revision in found:
        folder = until_then.enter_context(checked_out(revision, here))
        if folder != here:
            add_untracked(here, folder)
        yield revision, folder


def _mention_uncommitted(found: Sequence[Revision], here: Path) -> None:
    if all(one.commit for one in found) and (changed := uncommitted(here)):
        files = f"{changed} file{'s' * (changed > 1)}"
        told = f"uncommitted changes of {files} are in neither side; use `.` for the work tree"
        print(f"torchstone: {told}", file=sys.stderr)


def _asked(options: argparse.Namespace, recipe: str | None = None) -> RunRequest:
    """Return what the flags ask for; huge pages and pinned threads are the default here, unless it is said otherwise.

    Where a process has much memory, where its pages lie is the largest part of what pairs differ by; where it has
    several threads, where they wake up for the next turn.
    """
    request = asked(options, recipe)
    how = request.procedure
    typed = {"heap": options.heap, "pin_threads": options.pin_threads}
    said = {name: value for name, value in typed.items() if value is not None}
    return msgspec.structs.replace(request, procedure=msgspec.structs.replace(as_ab_does(how), **said))


def _is_recipe(word: str) -> bool:
    from torchstone.config.recipe_files import recipe_names

    return Path(word).suffix.lower() in (".yaml", ".yml", ".json", ".toml") or word in dict(recipe_names())


def _settings(flag: str, texts: Sequence[str] | None, *, of_program: bool = False) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise UsageError(f"{flag} {text}: write NAME=VALUE, for example precision=bf16")
        found[name] = values_of(name, value)[0] if of_program else axis_named(name).parse(value, f"{flag} {name}")
    return found


def _label(mine: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> str:
    """Return what a side is called: its settings, and in the place of those that only the other has, the default."""
    whole = {**{name: AXES[name].default for name in other}, **mine}
    return " ".join(f"{name}={value}" for name, value in whole.items())

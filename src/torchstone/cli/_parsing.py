"""argparse with one-line errors that name the nearest spelling."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.report.translation.language import VARIABLE, default_language

# What --help leaves to --help-all: of use to few, or the same as another option.
RARE = {
    "--accelerator-type",
    "--account",
    "--address",
    "--at-most",
    "--attempt",
    "--batch-sizes",
    "--budget",
    "--config",
    "--constraint",
    "--container",
    "--cpu-affinity",
    "--cpus",
    "--data-option",
    "--debug",
    "--disturbed",
    "--exclude",
    "--first",
    "--follow",
    "--grad-accumulation",
    "--heap",
    "--in-place",
    "--isolation",
    "--item",
    "--iterations",
    "--lang",
    "--learning-rate-rule",
    "--learning-rates",
    "--let-finish",
    "--limit",
    "--live",
    "--max-latency",
    "--memory",
    "--merge",
    "--min-throughput",
    "--mixed-precision",
    "--model-families",
    "--name",
    "--no-foresight",
    "--no-phases",
    "--no-rehearsal",
    "--no-requeue",
    "--num-workers",
    "--nvtx",
    "--only",
    "--optimizers",
    "--option",
    "--output-dir",
    "--plan",
    "--present",
    "--probes",
    "--profiling",
    "--push",
    "--qos",
    "--quality-margin",
    "--quiet",
    "--report",
    "--requeue-at-limit",
    "--save-model",
    "--sbatch",
    "--search-time",
    "--searcher",
    "--seed",
    "--sequence-lengths",
    "--settings",
    "--share",
    "--split",
    "--strict",
    "--target",
    "--telemetry",
    "--time-limit",
    "--timeout",
    "--warmup",
    "--warmup-budget",
    "--when-busy",
}
_FEW = 15  # options: a command that has no more shows them all


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of printing the usage and exiting; --help shows what most people need."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]
        self.add_argument("--help-all", action=_HelpAll, help="show every option and exit")

    def format_help(self, *, whole: bool = False) -> str:
        """Return what the command answers, examples, and its options: those most people need, or all (`whole`)."""
        shown = [group for group in self._action_groups if any(_is_shown(one) for one in group._group_actions)]
        every = [one for group in shown for one in group._group_actions if _is_shown(one) and one.option_strings]
        left = (
            [] if whole or len(every) <= _FEW else [one for one in every if RARE.intersection(one.option_strings[:1])]
        )
        formatter = self._get_formatter()
        answers, _, more = (self.description or "").strip().partition("\n\n")
        examples = [line.strip() for line in more.partition("\n\n")[0].splitlines()]  # a class's are indented
        formatter.add_text(answers)
        formatter.add_text("\n".join(examples if whole else examples[:3]))
        formatter.add_text(more.partition("\n\n")[2] if whole else None)
        formatter.add_text(self._shortest_usage())
        for group in sorted(shown, key=lambda group: group.title == "options"):  # those of every command come last
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments([one for one in group._group_actions if one not in left])
            formatter.end_section()
        if left:
            formatter.add_text(f"{self.prog} --help-all shows {len(left)} more options")
        return formatter.format_help()

    def _shortest_usage(self) -> str:
        names = [self._get_formatter()._format_args(one, one.dest) for one in self._actions if not one.option_strings]
        return " ".join(["usage:", self.prog, "[OPTIONS]", *names])

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; a misspelt flag gets the nearest one."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        strange = re.findall(r"(?<=unrecognized arguments: )(--[\w-]+)", message)
        import difflib

        near = difflib.get_close_matches(strange[0], flags, n=1) if strange else []
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"{message}.{hint} See {self.prog} --help")


class _HelpAll(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002  argparse's name
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and exit, as --help does."""
        assert isinstance(parser, Parser)
        print(parser.format_help(whole=True), end="")
        parser.exit()


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS


def split_words(texts: Iterable[str] | None) -> list[str]:
    """Split values given as `1,2,4` or as `1 2 4`, or both."""
    return [word for text in texts or () for word in re.split(r"[,\s]+", text) if word]


def add_language(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add --lang. `default`: argparse.SUPPRESS where another parser has the flag, and its value, already."""
    parser.add_argument(
        "--lang",
        metavar="LANGUAGE",
        default=default or default_language(),
        help=f"language of results and advice: en or ko (default: ${VARIABLE}, or en); JSON is always English",
    )


_MOST = 200  # runs, the newest


def complete(commands: Iterable[str]) -> None:
    """Answer the shell, and end the process. Of all commands only the one that is typed is loaded."""
    from argcomplete import autocomplete
    from argcomplete.completers import FilesCompleter

    typed = os.environ.get("COMP_LINE", "").split()[1:2]
    parser = argparse.ArgumentParser(prog="torchstone")
    each = parser.add_subparsers(parser_class=Parser)
    for name in commands:
        one = each.add_parser(name)
        if [name] == typed:
            import_module(f"torchstone.cli.{name}_command").add_arguments(one)
            _with_names(one)
    autocomplete(parser, default_completer=FilesCompleter())


def _with_names(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if (action.dest == "axes" and "--axis" in action.option_strings) or action.dest in ("a", "b"):
            action.completer = _axes  # type: ignore[attr-defined]
        elif not action.option_strings and action.dest in _NAMES:
            action.completer = _NAMES[action.dest]  # type: ignore[attr-defined]


def _recipes(**_: Any) -> list[str]:
    from torchstone.config.recipe_files import recipe_names

    return [name for name, _ in recipe_names()]


def _runs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the runs of the store that is named so far; none where it cannot be read."""
    from torchstone.cli._place import place_of
    from torchstone.storage.query import runs

    try:
        place = place_of(parsed_args)
        if isinstance(place, Path) and not place.is_dir():
            return []
        return ["latest", *(row.run_id for row in runs(place, _MOST))]
    except (TorchstoneError, AttributeError):
        return []


def _axes(**_: Any) -> list[str]:
    from torchstone.core.schema.axis import AXES

    return [f"{name}=" for name in AXES]


_NAMES = {"recipe": _recipes, "sides": _recipes, "run": _runs, "runs": _runs}

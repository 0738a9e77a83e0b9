"""What a shell may go on with: commands, options, recipes, stored runs, axes. It asks through argcomplete.

eval "$(register-python-argcomplete torchstone)" switches it on, in bash and zsh.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from torchstone.cli._parsing import Parser
from torchstone.core.errors import TorchstoneError

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

"""argparse with one-line errors that name the nearest spelling."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import NoReturn

from torchstone.core.errors import UsageError, unknown


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of printing the usage and exiting."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; a misspelt flag gets the nearest one."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        strange = re.findall(r"(?<=unrecognized arguments: )(--[\w-]+)", message)
        import difflib

        near = difflib.get_close_matches(strange[0], flags, n=1) if strange else []
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"{message}.{hint} See {self.prog} --help")


def suggest_command(word: str, commands: Iterable[str]) -> str:
    """Return the word if it is a command, else raise UsageError with the nearest one."""
    if word in commands:
        return word
    raise unknown("command", word, commands)


def words_of(texts: Iterable[str] | None) -> list[str]:
    """Split values given as `1,2,4` or as `1 2 4`, or both."""
    return [word for text in texts or () for word in re.split(r"[,\s]+", text) if word]


def add_json(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    """Add --json. `default`: argparse.SUPPRESS where another parser has the flag, and its value, already."""
    parser.add_argument(
        "--json", action="store_true", default=default, help="print one JSON document on stdout, nothing else"
    )

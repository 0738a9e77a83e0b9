"""Did a change slow it down? Both commits measured in one job, one comment on the pull request, a gate, a history.

torchstone ci measure bench/*.yaml --base origin/main     both commits, interleaved; writes torchstone-ci
torchstone ci measure --base main -- python train.py      the same of a program as you type it
torchstone ci comment                                     one comment on the pull request, edited in place
torchstone ci gate                                        exit 1 only if a benchmark is proven to be slower
torchstone ci history --push origin                       one file a commit, on a branch of its own
"""

from __future__ import annotations

import argparse
from importlib import import_module

from torchstone.cli._parsing import Parser
from torchstone.core.errors import UsageError

MEASURES_PROGRAMS = True  # behind --

_WORDS = {
    "measure": "measure both commits of a change in one job, interleaved, within one budget",
    "comment": "comment on the pull request: one comment, found again and edited in place",
    "gate": "exit 1 if a benchmark is proven to be slower by more than the limit",
    "history": "keep the result of a commit as one file on a branch of its own",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the four words of ci, each with its options."""
    words = parser.add_subparsers(dest="word", metavar=" | ".join(_WORDS), parser_class=Parser, required=True)
    for word, meaning in _WORDS.items():
        module = import_module(f"torchstone.cli._ci_{word}")
        module.add_arguments(words.add_parser(word, help=meaning, description=f"{meaning[0].upper()}{meaning[1:]}."))


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    if options.program is not None and options.word != "measure":
        raise UsageError(f"ci {options.word} takes no command: torchstone ci measure --base REV -- COMMAND measures it")
    code: int = import_module(f"torchstone.cli._ci_{options.word}").run(options)
    return code

"""Print this machine: host, devices, software, and the settings that affect timings.

torchstone machine          host, devices, software, settings
torchstone machine check    is it fit to measure on? (about a minute; --quick: half of it)
torchstone machine check --all   which of several devices is slow, and what they take from each other
torchstone machine peaks    the measured peak rates of a device (half a minute), beside its datasheet
"""

from __future__ import annotations

import argparse
from importlib import import_module

from torchstone.cli._language import add_language
from torchstone.cli._parsing import Parser, add_json

_WORDS = {"check": "check whether this machine is fit to measure on", "peaks": "measure the peak rates of a device"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine, and of its two words."""
    add_json(parser)
    words = parser.add_subparsers(dest="word", metavar="check | peaks", parser_class=Parser)
    for word, meaning in _WORDS.items():
        own = words.add_parser(word, help=meaning, description=meaning)
        # Without a default of its own: that would overrule a --json that comes before the word.
        add_json(own, default=argparse.SUPPRESS)
        add_language(own, default=argparse.SUPPRESS)
        import_module(f"torchstone.cli._machine_{word}").add_arguments(own)


def run(options: argparse.Namespace) -> int:
    """Print what was asked for."""
    code: int = import_module(f"torchstone.cli._machine_{options.word or 'facts'}").run(options)
    return code

"""Sphinx's configuration: `make docs` builds the site from the pages as GitHub shows them.

The source folder is the whole checkout (`sphinx-build --conf-dir docs . build/docs`), so that links between README.md,
CONTRIBUTING.md and docs/ are the same in both places. Two things are added while a page is read, and are in no file:
the navigation, from the links of the pages called README.md, and the reference of the commands, from their parsers.
"""

from __future__ import annotations

import argparse
import os
import re
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

from torchstone.cli import COMMANDS
from torchstone.cli._parsing import Parser

project = "torchstone"
author = "the torchstone authors"
release = version_of("torchstone")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**", "examples/**", "benchmarks/README.md", "tests/README.md"]
exclude_patterns = [".*", "build", "dist", "outputs", "src", "benchmarks/peers", "benchmarks/data"]
root_doc = "docs/README"

myst_heading_anchors = 4
default_role = "code"  # `name` in a docstring
highlight_language = "text"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"torchstone {release}"
html_copy_source = False
html_show_copyright = False
templates_path = ["templates"]
html_additional_pages = {"index": "to_start.html"}


def navigation(page: str) -> str:
    """Return the hidden tables of contents of a page that lists others: one for each of its sections, in its order."""
    told = set[str]()
    tables = []
    for title, text in re.findall(r"^##? (.*)\n((?:(?!##? ).*\n?)*)", page, re.MULTILINE):
        links = [link for link in re.findall(r"\]\(([^)#:]+\.md)\)", text) if link not in told]
        told.update(links)
        if links:
            entries = "\n".join(dict.fromkeys(links))
            tables.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n")
    return "".join(tables)


def command_reference() -> str:
    """Return a section for each command, with its help as the terminal prints it."""
    sections = []
    for name in COMMANDS:
        command = import_module(f"torchstone.cli.{name}_command")
        parser = Parser(prog=f"torchstone {name}", description=command.__doc__)
        command.add_arguments(parser)
        sections += _sections(parser, "##")
    return "\n".join(sections)


def _sections(parser: argparse.ArgumentParser, level: str) -> list[str]:
    own = [f"\n{level} {parser.prog}\n\n```text\n{parser.format_help()}```"]
    for action in parser._actions:  # argparse names a command's own words nowhere else
        if isinstance(action, argparse._SubParsersAction):
            own += [one for inner in action.choices.values() for one in _sections(inner, f"{level}#")]
    return own


def _complete(app: Any, name: str, source: list[str]) -> None:
    if name.startswith("docs/") and name.endswith("/README"):
        source[0] += navigation(source[0])
    if name == "docs/reference/commands":
        source[0] += command_reference()


def _without_a_modules_own(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if what == "module":  # the page says it
        lines.clear()


def setup(app: Any) -> None:
    """Register with Sphinx."""
    from pygments.lexers.special import TextLexer

    os.environ["COLUMNS"] = "100"  # the width of help
    app.add_lexer("tree", TextLexer)
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", _without_a_modules_own)

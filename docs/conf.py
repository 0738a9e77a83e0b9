"""Sphinx's configuration: `make docs` builds the site from the pages as GitHub shows them.

The source folder is the whole checkout (`sphinx-build --conf-dir docs . build/docs`), so that links between README.md,
CONTRIBUTING.md and docs/ are the same in both places. Two things are added while a page is read, and are in no file:
the navigation, from the links of the pages called README.md, and the reference of the commands, from their parsers.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import os
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

from torchstone.cli import COMMANDS
from torchstone.cli._parsing import Parser, add_language

project = "torchstone"
author = "the torchstone authors"
release = version_of("torchstone")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
include_patterns = ["*.md", "docs/**", "examples/**", "benchmarks/README.md", "tests/README.md"]
exclude_patterns = [".*", "build", "dist", "outputs", "src", "benchmarks/peers", "benchmarks/data"]
root_doc = "docs/README"

myst_heading_anchors = 4
default_role = "code"  # `name` in a docstring
highlight_language = "text"
smartquotes = False  # --model stays as it is typed
autodoc_member_order = "bysource"
autoclass_content = "both"

html_theme = "furo"
html_title = f"torchstone {release}"
html_copy_source = False
html_show_copyright = False
PYTHON = {"docs/reference/python": "torchstone", "docs/reference/extend": "torchstone.extend"}

templates_path = ["templates"]
html_additional_pages = {"index": "to_start.html"}


def navigation(page: str) -> str:
    """Return the hidden tables of contents of a page: the links of its tables, a part for each of its sections."""
    told = set[str]()
    tables = []
    for title, text in re.findall(r"^##? (.*)\n((?:(?!##? ).*\n?)*)", page, re.MULTILINE):
        rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
        links = [link for link in re.findall(r"\]\(([^)#:]+\.md)\)", rows) if link not in told]
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
        add_language(parser)
        sections += _sections(parser, "##")
    return "\n".join(sections)


def _sections(parser: argparse.ArgumentParser, level: str) -> list[str]:
    own = [f"\n{level} {parser.prog}\n\n```text\n{parser.format_help()}```"]
    for action in parser._actions:  # argparse names a command's own words nowhere else
        if isinstance(action, argparse._SubParsersAction):
            own += [one for inner in action.choices.values() for one in _sections(inner, f"{level}#")]
    return own


def python_reference(module: str) -> str:
    """Return a section for each public name of a module, with its docstrings and those of its members."""
    sections = []
    for name in sorted(import_module(module).__all__, key=str.lower):
        thing = getattr(import_module(module), name)
        kind = "class" if inspect.isclass(thing) else "function" if callable(thing) else None
        members = ["   :members:", "   :undoc-members:"] if kind == "class" else []
        directive = "\n".join(("```{eval-rst}", f".. auto{kind}:: {module}.{name}", "   :no-index:", *members, "```"))
        value = ", ".join(thing) if isinstance(thing, Mapping) else str(thing)
        sections.append(f"\n## {name}\n\n{directive if kind else f'`{value}`'}\n")
    return "\n".join(sections)


def _complete(_app: Any, name: str, source: list[str]) -> None:
    if name.startswith("docs/") and name.endswith("/README"):
        source[0] += navigation(source[0])
    if name == "docs/reference/commands":
        source[0] += command_reference()
    if name in PYTHON:
        source[0] += python_reference(PYTHON[name])


def _docstring(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Make definitions of lines such as `name: text`, and headings of underlined words."""
    told: list[str] = []
    listed = False
    for line, after in itertools.pairwise([*lines, ""]):
        field = re.match(r"(\w+(?:, \w+)*): (.+)", line)
        if after.startswith("---"):
            told += ["", f".. rubric:: {line}", ""]
            listed = True
        elif field and (listed or after.startswith("    ")):
            told += [f"`{field[1]}`", f"    {field[2]}"]
        elif not line.startswith("---"):
            told.append(line)
    lines[:] = told


def setup(app: Any) -> None:
    """Register with Sphinx."""
    os.environ["COLUMNS"] = "90"  # the width of help
    app.add_lexer("tree", import_module("pygments.lexers.special").TextLexer)
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", _docstring)

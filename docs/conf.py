"""Sphinx's configuration: `make docs` builds the site from the pages as GitHub shows them.

The source folder is the whole checkout (`sphinx-build -c docs . build/docs`), so that links between README.md,
CONTRIBUTING.md and docs/ are the same in both places. Two things are added while a page is read, and stand in no file:
the navigation, from the links of the pages called README.md, and the reference of the commands, from their parsers.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

from torchstone.cli import COMMANDS
from torchstone.cli._parsing import Parser

project = "torchstone"
author = copyright = "the torchstone authors"  # noqa: A001  Sphinx's name for it
release = version_of("torchstone")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**", "examples/**", "benchmarks/README.md", "tests/README.md"]
exclude_patterns = [".*", "build", "dist", "outputs", "src", "**/__pycache__", "benchmarks/peers", "benchmarks/data"]
root_doc = "docs/README"
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4
default_role = "code"  # `name` in a docstring
highlight_language = "text"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"torchstone {release}"
html_copy_source = False
html_show_copyright = False
html_additional_pages = {"index": "to_start.html"}
templates_path = ["templates"]


def navigation(page: str) -> str:
    """Return the hidden tables of contents of a page that lists others: one for each of its sections, in its order."""
    told = set[str]()
    tables = []
    for title, text in re.findall(r"^##? (.*)\n((?:(?!##? ).*\n?)*)", page, re.MULTILINE):
        links = [link for link in re.findall(r"\]\(([^)#]+\.md)\)", text) if "://" not in link and link not in told]
        told.update(links)
        if links:
            entries = "\n".join(dict.fromkeys(links))
            tables.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n")
    return "".join(tables)


def command_reference() -> str:
    """Return a section for each command, with its help as the terminal prints it."""
    sections = []
    for name, meaning in COMMANDS.items():
        command = import_module(f"torchstone.cli.{name}_command")
        parser = Parser(prog=f"torchstone {name}", description=command.__doc__)
        command.add_arguments(parser)
        sections.append(f"\n## torchstone {name}\n\n{meaning}\n\n```text\n{parser.format_help()}```\n")
        for action in parser._actions:  # argparse names them nowhere else
            for word, inner in (action.choices or {}).items() if action.nargs == "A..." else ():
                sections.append(f"\n### torchstone {name} {word}\n\n```text\n{inner.format_help()}```\n")
    return "".join(sections)


def _complete(app: Any, name: str, source: list[str]) -> None:
    if name.startswith("docs/") and name.endswith("/README"):
        source[0] += navigation(source[0])
    if name == "docs/reference/commands":
        source[0] += command_reference()


def setup(app: Any) -> None:
    """Register with Sphinx."""
    from pygments.lexers.special import TextLexer

    app.add_lexer("tree", TextLexer)
    app.connect("source-read", _complete)

"""Help, errors, checks and descriptions are in the field's words (docs/style.md): none of those that left."""

import argparse
import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest
from over import over
from words import LEFT, old_words

from torchstone.cli import COMMANDS, main
from torchstone.cli._parsing import Parser
from torchstone.core.messages import MESSAGES, REMEDIES
from torchstone.core.schema.axis import AXES
from torchstone.plugins import registry

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "torchstone"
FILES = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
FAMILIES = (
    "devices", "telemetry", "models", "data", "engines", "searchers", "launchers", "checks", "exporters", "importers",
    "clusters", "runtimes",
)  # fmt: skip


def texts(node: ast.AST) -> Iterator[str]:
    """Every piece of text below a node, docstrings left out."""
    docstrings = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    for n in ast.walk(node):
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docstrings:
            yield n.value


def parsers(parser: argparse.ArgumentParser) -> Iterator[Parser]:
    yield cast("Parser", parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_a_word_that_left_is_found_and_what_is_typed_is_not() -> None:
    assert old_words("3 trials ended well") == ["'ended well': write 'succeeds, successful'"]
    assert old_words("Cannot be told from it")
    assert not old_words("--no-anew, or `torchstone duel`")
    assert not old_words("a neighbourhood, beaten, features: no whole word of these")
    assert all(term.strip() for term in LEFT.values())


@over("name", COMMANDS)
def test_the_help_of_a_command(name: str) -> None:
    command = import_module(f"torchstone.cli.{name}_command")
    parser = Parser(prog=f"torchstone {name}", description=command.__doc__)
    command.add_arguments(parser)
    for one in parsers(parser):
        assert not old_words(one.format_help(whole=True))


def test_the_help_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help-all"])
    assert not old_words(capsys.readouterr().out)


@over("name", FILES)
def test_the_texts_of_errors(name: str) -> None:
    raised = [n for n in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))) if isinstance(n, ast.Raise)]
    assert not [fault for n in raised for text in texts(n) for fault in old_words(text)]


def test_the_texts_of_findings() -> None:
    told = [text for words in MESSAGES.values() for text in (words.message, words.advice)]
    assert not [fault for text in (*told, *REMEDIES.values()) for fault in old_words(text)]


def test_every_reason_of_a_check_has_its_text_and_every_text_is_of_a_check() -> None:
    of = {name.partition(".")[0] for name in MESSAGES}
    assert of == {*registry._own("checks"), "in_this_process", "items_unknown", "resumed"}


@over("family", FAMILIES)
def test_the_descriptions_of_plug_ins(family: str) -> None:
    assert not [fault for _, plugin in registry.usable(family) for fault in old_words(plugin.describes)]


def test_the_meanings_of_axes() -> None:
    assert not [fault for axis in AXES.values() for fault in old_words(axis.meaning)]


@over("page", ["README.md", "CONTRIBUTING.md", "docs/guide.md", "docs/architecture.md", "docs/a-trial.md"])
def test_the_pages_that_are_read_first(page: str) -> None:
    assert not old_words((ROOT / page).read_text(encoding="utf-8"))


# Comments and docstrings; ids are named where the record of them is, in tests/acceptance and docs/features.md.
@over("name", FILES)
def test_no_id_of_a_task_list_in_the_source(name: str) -> None:
    assert not re.findall(r"\bS\d-\d{2}\b", FILES[name].read_text(encoding="utf-8"))

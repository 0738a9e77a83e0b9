"""What `--help` shows: the answer and examples first, the options that most people need, and the rest by --help-all."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from over import over

from torchstone import cli
from torchstone.cli import COMMANDS, GROUPS, QUESTIONS, main
from torchstone.cli._parsing import RARE, Parser

MOST = 15


def parser_of(name):
    command = import_module(f"torchstone.cli.{name}_command")
    parser = Parser(prog=f"torchstone {name}", description=command.__doc__)
    command.add_arguments(parser)
    return parser


def flags(text):
    return set(re.findall(r"^  (--?[a-z][\w-]*)", text, re.MULTILINE)) - {"-h", "--help-all"}


@over("name", COMMANDS)
def test_help_begins_with_the_answer_and_has_few_options(name):
    parser = parser_of(name)
    text = parser.format_help()
    lines = text.splitlines()
    assert lines[0].rstrip(".:") == parser.description.strip().splitlines()[0].rstrip(".:")[: len(lines[0])]
    assert len(flags(text)) <= MOST
    assert sum(line.startswith("torchstone ") and "--help-all" not in line for line in lines) <= 3


@over("name", COMMANDS)
def test_help_all_has_every_option(name):
    parser = parser_of(name)
    all_of_them = {one.option_strings[0] for one in parser._actions if one.option_strings} - {"-h", "--help-all"}
    whole, few = flags(parser.format_help(whole=True)), flags(parser.format_help())
    assert whole == all_of_them
    assert whole - few <= RARE
    told = re.search(r"--help-all shows (\d+) more options", parser.format_help())
    assert (int(told[1]) if told else 0) == len(whole - few)


def test_help_all_is_printed_and_nothing_is_run(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--help-all"])
    assert ended.value.code == 0
    assert "--warmup-budget" in capsys.readouterr().out


def test_every_command_has_a_line_and_is_in_one_group():
    files = [file.name.removesuffix("_command.py") for file in Path(cli.__file__).parent.glob("*_command.py")]
    assert sorted(files) == sorted(COMMANDS) == sorted(name for names in GROUPS.values() for name in names)


@over("question", QUESTIONS)
def test_what_answers_a_question_is_a_command_that_can_be_typed(question):
    program, name, *words = shlex.split(QUESTIONS[question])
    assert (program, name in COMMANDS) == ("torchstone", True)
    typed, behind = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, None)
    options = parser_of(name).parse_args(typed)  # raises UsageError for a flag or a word that there is not
    assert bool(behind) == getattr(import_module(f"torchstone.cli.{name}_command"), "MEASURES_PROGRAMS", False)
    assert "--" not in typed
    assert getattr(options, "program", None) is None

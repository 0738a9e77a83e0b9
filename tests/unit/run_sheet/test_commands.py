"""The commands of the sheet as they are on a device, which no machine without one gets to see: each is one there is."""

import contextlib
import importlib
import json

import pytest
from run_sheet import rates
from run_sheet.here import Done, Here, Refused
from run_sheet.sheet import STEPS

from torchstone.cli._parsing import Parser, add_language

RUNS = {"A0", "A2", "A4", "A5", "A6", "B1", "B2", "B5", "C1", "C2", "C4", "D1", "D2", "D4"}  # steps that begin with one


class Recording(Here):
    """A machine on which every command ends with 3, and a loop by hand takes a second."""

    def run(self, words, limit_s=None, more=None):
        asked.append(list(words))
        by_hand = "run_sheet.by_hand" in words
        return Done(tuple(words), 0 if by_hand else 3, json.dumps({"step_s": 1.0}) if by_hand else "", "no device", 0.1)


asked: list[list[str]] = []


@pytest.mark.parametrize("step", [one for one in STEPS if one.id in RUNS], ids=lambda one: one.id)
def test_every_command_parses(step, tmp_path, monkeypatch):
    asked.clear()
    monkeypatch.setattr(rates, "by_hand", lambda _: None)  # B1's own work, where there is a device
    module, _, name = step.do.partition(":")
    here = Recording("cuda", False, "spawn", tmp_path, lambda *_: None)
    with contextlib.suppress(Refused):  # there is no device
        getattr(importlib.import_module(module), name)(here)
    commands = [words[3:] for words in asked if words[1:3] == ["-m", "torchstone"]]
    assert commands
    for command, *words in commands:
        parser = Parser(prog=f"torchstone {command}")
        importlib.import_module(f"torchstone.cli.{command}_command").add_arguments(parser)
        add_language(parser)
        parser.parse_args(words)

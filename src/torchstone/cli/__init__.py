"""The command line. main() is its table of contents; each command is one file, imported only when it is run."""

from __future__ import annotations

import sys
from importlib import import_module

from torchstone.cli._parsing import Parser, suggest_command
from torchstone.core.errors import ExitCode, TorchstoneError

COMMANDS = {
    "run": "measure a model: training or inference, over any axes",
    "tune": "find the fastest safe settings, at a few percent of the cost of trying everything",
    "memory": "what fits a card you do not have: the predicted peak of a step, and the largest batch",
    "ab": "is B faster than A: both live, taking turns, until it is known",
    "compare": "is it really faster: stored runs beside each other, of one machine or many",
    "diagnose": "why is it slow: the cause with its evidence, and remedies measured before they are offered",
    "recommend": "hardware and settings, from all that is stored, and how sure that is",
    "history": "how figures moved over all runs, where they changed, and what changed with them",
    "train": "train a model to an end: epochs judged on held-out data, checkpoints, metrics",
    "evaluate": "judge a checkpoint: accuracy, precision, recall, F1, confusion matrix",
    "resume": "go on with a run that was cut off: take what is missing, and only that",
    "show": "print a stored run: every number with its interval",
    "check": "say whether to believe results, stored ones or those of other tools, and why not",
    "runs": "list the stored runs, newest first",
    "list": "list models, data, devices, recipes, axes, checks, formats, importers",
    "machine": "print what is here: host, devices, software, settings",
    "export": "write a stored run as csv, json, jsonl, parquet, or charts (svg)",
    "import": "take runs from other machines, or results of other tools, into the store",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code (ExitCode, docs/exit-codes.md)."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if not words or words[0] in ("-h", "--help"):
            return _help()
        if words[0] in ("-V", "--version"):
            return _version()
        name = suggest_command(words[0], COMMANDS)
        command = import_module(f"torchstone.cli.{name}_command")
        parser = Parser(prog=f"torchstone {name}", description=command.__doc__)
        command.add_arguments(parser)
        code: int = command.run(parser.parse_args(words[1:]))
    except TorchstoneError as error:
        from torchstone.core.plain_text import plain

        # It may name a file of a stranger's folder, or quote what is in it. The user's own code has several lines.
        lines = [plain(line.expandtabs()) for line in str(error).split("\n")]
        print("torchstone: " + "\n".join(lines), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("torchstone: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return code


def _help() -> int:
    width = max(map(len, COMMANDS))
    print("usage: torchstone COMMAND [OPTIONS]\n")
    print("How fast, lean and costly a neural network really is on this hardware.\n")
    for name, meaning in COMMANDS.items():
        print(f"  {name:<{width}}  {meaning}")
    print("\nStart with:  torchstone run smoke        (a minute)")
    print("             torchstone list             (what there is)")
    print("             torchstone COMMAND --help")
    print("\nExit codes:")
    for code in ExitCode:
        print(f"  {code:<{width}}  {code.meaning}")
    return ExitCode.DONE


def _version() -> int:
    from importlib.metadata import version

    print(f"torchstone {version('torchstone')}")
    return 0

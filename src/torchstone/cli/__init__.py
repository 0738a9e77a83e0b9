"""The command line. main() is its table of contents; each command is one file, imported only when it is run.

Other packages add commands under the entry-point group `torchstone.commands`; they are looked up only for a word that
is none of ours, and for --help.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from torchstone.cli._parsing import Parser, add_language
from torchstone.core.errors import ExitCode, TorchstoneError
from torchstone.report.translation.language import in_language

QUESTIONS = {
    "How fast is my training?": "torchstone run -- python train.py --batch_size 16",
    "Is my change faster?": "torchstone ab main HEAD -- python train.py",
    "Which settings are fastest?": "torchstone tune -- python train.py --batch_size {batch_size}",
    "Why is it slow?": "torchstone diagnose -- python train.py",
    "Does it fit into memory?": "torchstone memory gpt2 --task train --for h100-80gb",
}

GROUPS = {
    "measure": ("run", "train", "evaluate", "goodput", "resume", "reproduce", "submit"),
    "decide": ("tune", "ab", "ci", "compare", "recommend", "diagnose", "attach", "memory", "cost", "history"),
    "read": ("show", "runs", "report", "serve", "verify", "check", "export", "list", "machine"),
    "share": ("push", "store", "import", "release", "manifest"),
}

COMMANDS = {
    "run": "measure a model: training or inference, over any axes",
    "tune": "find the fastest safe settings, at a few percent of the cost of measuring all",
    "goodput": "find the highest rate of queries served within a latency bound (MLPerf LoadGen)",
    "memory": "predict the peak memory of a step on any card, and the largest batch that fits",
    "ab": "test whether B is faster than A, in interleaved pairs, with a bound on false alarms",
    "ci": "continuous integration: measure a change, comment on its pull request, gate, history",
    "compare": "compare stored runs of one or several machines: significant differences and their size",
    "diagnose": "find why it is slow: bottlenecks with evidence, and remedies with their measured speed-up",
    "attach": "find what slows a training that is running, from outside, in half a minute",
    "recommend": "recommend hardware and settings from all stored results",
    "cost": "compute what results cost: money, energy and carbon of a million items, an epoch, a training",
    "history": "show how figures changed over all stored runs, and what changed with them",
    "train": "train a model for whole epochs: validation, checkpoints, metrics",
    "submit": "have a run measured by jobs of a cluster (SLURM, Ray), merged into one run",
    "evaluate": "evaluate a checkpoint: accuracy, precision, recall, F1, confusion matrix",
    "resume": "continue an interrupted run: measure only the missing trials",
    "show": "print a stored run: every figure with its 95 % confidence interval",
    "report": "write the report of stored runs as files: HTML, PDF, slides, Markdown, CSV, pictures",
    "verify": "compute a report again from the record that it carries, and name what does not follow",
    "release": "write a folder to publish: reports, figures, records, environment, README, manifest",
    "reproduce": "measure a stored run again on this machine: equivalent, different or inconclusive",
    "manifest": "write or check SHA256SUMS of a folder",
    "serve": "serve pages over the stored runs: lists, comparisons, histories, a run as it goes on",
    "check": "check results, stored ones or those of other tools, for measurement errors",
    "runs": "list the stored runs, newest first",
    "list": "list models, data, devices, recipes, axes, checks, formats, importers",
    "machine": "print this machine: host, devices, software, settings",
    "export": "write a stored run as csv, json, jsonl, parquet, or charts (svg)",
    "import": "import runs from other machines or results of other tools",
    "push": "send stored runs to the store of a team (PostgreSQL); what is there already stays",
    "store": "make, upgrade or look at the store of a team, and who may do what in it",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code (ExitCode, docs/exit-codes.md)."""
    words = sys.argv[1:] if arguments is None else arguments
    if "_ARGCOMPLETE" in os.environ:
        from torchstone.cli._parsing import complete

        complete(COMMANDS)
    try:
        if not words or words[0] in ("-h", "--help", "--help-all"):
            return _help(whole="--help-all" in words)
        if words[0] in ("-V", "--version"):
            from importlib.metadata import version

            print(f"torchstone {version('torchstone')}")
            return 0
        name, command = words[0], _load_command(words[0])
        parser = Parser(prog=f"torchstone {name}", description=command.__doc__)
        command.add_arguments(parser)
        add_language(parser)
        typed, program = words[1:], None
        if "--" in typed and getattr(command, "MEASURES_PROGRAMS", False):
            end = typed.index("--")
            typed, program = typed[:end], tuple(typed[end + 1 :])
        options = parser.parse_args(typed)
        options.program = program
        _show_slice(getattr(options, "device", None))
        with in_language(options.lang):
            code: int = command.run(options)
    except TorchstoneError as error:
        from torchstone.core.units import plain
        from torchstone.storage.place import without_passwords

        # It may name a file of a stranger's folder, or quote what is in it. The user's own code has several lines.
        lines = [plain(line.expandtabs()) for line in without_passwords(str(error)).split("\n")]
        print("torchstone: " + "\n".join(lines), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("torchstone: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return code


def _load_command(name: str) -> Any:
    """Return the module of a command, or the Command of another package. Raises UsageError with the nearest name."""
    if name in COMMANDS:
        return import_module(f"torchstone.cli.{name}_command")
    from torchstone.plugins import registry

    return registry.load("commands", name)


def _show_slice(device: str | list[str] | None) -> None:
    words = [device] if isinstance(device, str) else device or ()
    if any(word.startswith("MIG-") for word in words):
        import os

        from torchstone.execution.device_words import show_slice

        show_slice(words, os.environ)


def _help(*, whole: bool) -> int:
    """Print five questions with a command each and the names of all commands; `whole`: what each does, exit codes."""
    print("torchstone measures speed, memory and energy of PyTorch training and inference on this machine.\n")
    width = max(map(len, QUESTIONS))
    for question, typed in QUESTIONS.items():
        print(f"  {question:<{width}}  {typed}")
    width = max(map(len, COMMANDS))
    from torchstone.plugins import registry

    others = tuple(name for name in registry.names("commands") if name not in COMMANDS)
    for group, names in {**GROUPS, **({"others": others} if others else {})}.items():
        if whole:
            about = {name: COMMANDS.get(name) or registry.describe("commands", name) for name in names}
            print(f"\n{group}:", *(f"  {name:<{width}}  {text}" for name, text in about.items()), sep="\n")
        else:
            print("\n" * (group == "measure") + f"  {group:<7}  {'  '.join(names)}")
    if whole:
        print("\nexit codes:", *(f"  {code:<{width}}  {code.meaning}" for code in ExitCode), sep="\n")
    more = "" if whole else "; torchstone --help-all describes them and the exit codes"
    print(f"\ntorchstone COMMAND --help shows what a command answers, and its options{more}")
    return ExitCode.DONE

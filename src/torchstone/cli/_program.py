"""`-- COMMAND`: a program instead of a recipe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from torchstone.cli._parsing import words_of
from torchstone.cli._procedure_options import with_procedure
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar, axis_values

if TYPE_CHECKING:
    from torchstone.workflows.run.program_run import ProgramRequest

_STEPS = ("auto", "optimizer", "backward", "forward")
_NONE_OF_ITS = ("recipe", "config", "model", "data", "data_option", "task", "option", "limit", "split", "exclude",
                "first", "heap", "pin_threads", "case", "apply", "isolation", "settings")  # fmt: skip


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the options of a program behind --."""
    how = parser.add_argument_group("a program, written behind --")
    how.add_argument(
        "--step", choices=_STEPS, default="auto",
        help="with what a step ends (default: an optimizer's step; without one, a forward pass without gradients)",
    )  # fmt: skip
    parser.set_defaults(program=None)
    how.add_argument("--item", default="sample", help="what a row of a batch is called (default: sample)")
    how.add_argument(
        "--in-place", action="store_true",
        help="run it where it is (default: in a work folder that looks like this one, so that its files stay apart)",
    )  # fmt: skip
    how.add_argument("--let-finish", action="store_true", help="let it go on to its own end after its window")


def program_request(options: argparse.Namespace, words: tuple[str, ...] | None = None) -> ProgramRequest:
    """Return what was typed; `words`: of the command, where there are two.

    Raises UsageError for options that are none of a program.
    """
    import msgspec

    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.run.program_run import ProgramRequest

    if not options.program:
        raise UsageError("nothing behind --: write the command as you type it, for example -- python train.py")
    if given := [
        name.upper() if name == "recipe" else f"--{name.replace('_', '-')}"
        for name in _NONE_OF_ITS if getattr(options, name, None)
    ]:  # fmt: skip
        raise UsageError(f"{', '.join(given)}: not for a program; what it does is in its own command behind --")
    how = with_procedure(RunRequest(workloads=()), options)
    procedure = msgspec.structs.replace(
        how.procedure, isolation="program", heap="default", settings="torch", count_flops=False,
        phases=False, in_place=options.in_place, let_finish=options.let_finish,
    )  # fmt: skip
    return ProgramRequest(
        words or options.program, _axes(options), procedure, how.name, how.device, options.item, options.step
    )


def _axes(options: argparse.Namespace) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of each axis. One that torchstone does not know is the program's own."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for flag, text in getattr(options, "axes", None) or ():
        name, equals, values = text.partition("=")
        if flag != "--axis":
            name, values = flag.strip("-").replace("-", "_").removesuffix("s"), text
        elif not equals or not values:
            raise UsageError(f"--axis {text}: write NAME=VALUE or NAME=V1,V2, for example batch_size=1,8")
        found[name.strip()] = values_of(name.strip(), values)
    return found


def values_of(name: str, text: str) -> tuple[Scalar, ...]:
    """Return the values of an axis as they were typed, with commas between; its words are the program's own.

    Raises UsageError for a word where torchstone knows the axis as a number.
    """
    words = words_of([text])
    numbers = name in AXES and AXES[name].kind in ("int", "float")
    return axis_values(name, words) if numbers else tuple(map(_scalar, words))


def _scalar(word: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word

"""The options that say how to measure: the Procedure."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Self

import msgspec

from torchstone.cli._parsing import words_of
from torchstone.core.errors import UsageError
from torchstone.core.schema.procedure import DISTURBED, HEAPS

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest


class Typed(msgspec.Struct, frozen=True):
    """What was typed of a group of options; what a command has no option for is None."""

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Take it out of all that was typed."""
        return msgspec.convert(vars(options), cls)


class ProcedureTyped(Typed, frozen=True):
    """Of the options that say how to measure."""

    trials: int | None = None
    within: str | None = None
    warmup: int | None = None
    warmup_budget: str | None = None
    iterations: int | None = None
    target: str | None = None
    budget: str | None = None
    timeout: str | None = None
    time_limit: str | None = None
    disturbed: str | None = None
    telemetry: str | None = None
    seed: int | None = None
    isolation: str | None = None
    heap: str | None = None
    cpu_affinity: str | None = None
    settings: str | None = None
    no_phases: bool = False
    nvtx: bool = False
    profiling: bool = False
    no_foresight: bool = False
    name: str | None = None
    device: list[str] | None = None


def add_procedure(parser: argparse.ArgumentParser, *, sides: bool = False) -> None:
    """Add the options. `sides`: only those that apply to the interleaved sides of `ab`."""
    how = parser.add_argument_group("how to measure")
    if not sides:
        _add_of_trials(how)
    how.add_argument("--warmup", type=int, metavar="N", help="minimum number of warm-up steps (default: detected)")
    most = "0.1s" if sides else "3s"
    how.add_argument(
        "--warmup-budget", metavar="T", help=f"maximum warm-up time, apart from the --warmup steps (default {most})"
    )
    how.add_argument("--timeout", metavar="T", help="maximum time of a trial (default 10m)")
    how.add_argument("--seed", type=int, metavar="N", help="random seed of data, weights and order (default 0)")
    how.add_argument(
        "--isolation", choices=("auto", "fork", "spawn"), help="how trial processes are started (default auto)"
    )
    add_heap(how, "huge" if sides else "fixed")
    if sides:
        how.add_argument(
            "--pin-threads", action=argparse.BooleanOptionalAction, default=None,
            help="pin the OpenMP threads of both sides, one per logical core (default)",
        )  # fmt: skip
    how.add_argument("--name", help="name of the run (default: the recipe's)")


def add_heap(how: argparse._ArgumentGroup, usual: str = "fixed") -> None:
    """Add --heap. `usual`: what the command does where nobody says it."""
    told = f"malloc policy: fixed = keep freed memory; huge = also use huge pages (default {usual})"
    how.add_argument("--heap", choices=HEAPS, help=told)


def _add_of_trials(how: argparse._ArgumentGroup) -> None:
    how.add_argument(
        "--within", metavar="T",
        help="maximum time of the whole command (default: 30 s plus 25 s per case, at least three trials of each)",
    )  # fmt: skip
    how.add_argument(
        "--trials", type=int, metavar="N",
        help="fresh processes per case (default: as many short ones as ±target needs)",
    )  # fmt: skip
    how.add_argument(
        "--iterations", "--steps", type=int, metavar="N",
        help="exact number of steady steps (default: until ±target or --budget)",
    )  # fmt: skip
    how.add_argument(
        "--target", metavar="P",
        help="half-width of the 95 %% confidence interval of throughput to reach (default 5%%); with --trials: of one "
        "window (default 1%%)",
    )  # fmt: skip
    how.add_argument("--budget", metavar="T", help="maximum time of a window (default 5s)")
    how.add_argument(
        "--time-limit", metavar="T", help="start no trial after this time; `torchstone resume` continues the run"
    )
    how.add_argument(
        "--disturbed", choices=DISTURBED,
        help="trials beside which other programs were busy: replace = left out and, without --trials, measured again",
    )  # fmt: skip
    how.add_argument("--telemetry", metavar="T", help="sampling period of telemetry (default 500ms; 0: off)")
    how.add_argument("--no-phases", action="store_true", help="skip the pass that splits a step into phases")
    how.add_argument(
        "--cpu-affinity", metavar="CORES",
        help="keep each trial to these logical cores: device (next to the device), node:N (a NUMA node), or 0-3,8",
    )  # fmt: skip
    how.add_argument("--nvtx", action="store_true", help="emit NVTX ranges around steps and phases, for nsys")
    how.add_argument(
        "--profiling", action="store_true", help="record a torch.profiler trace of each case after its windows"
    )
    how.add_argument("--no-foresight", action="store_true", help="do not skip cases predicted to run out of memory")


def affinity(word: str | None) -> str | None:
    """Return the cores of --cpu-affinity as they are kept. Raises UsageError where this machine has no such ones."""
    if word is None:
        return None
    from torchstone.core.cores import NEAR_DEVICE, affinity_word
    from torchstone.execution.inspection import usable

    kept = affinity_word(word)
    if kept != NEAR_DEVICE:  # which is asked of the device, in the trial
        usable(kept, None)
    return kept


def with_procedure(request: RunRequest, options: argparse.Namespace) -> RunRequest:
    """Return the request with the procedure, name and devices that were typed. Raises UsageError for a wrong one."""
    from torchstone.core.units import duration_s, share

    typed = ProcedureTyped.of(options)
    target = share(typed.target, "--target") if typed.target is not None else None
    changes: dict[str, Any] = {
        "trials": at_least("--trials", typed.trials, 1), "warmup": at_least("--warmup", typed.warmup, 0),
        "iterations": at_least("--iterations", typed.iterations, 1), "seed": at_least("--seed", typed.seed, 0),
        "isolation": typed.isolation, "disturbed": typed.disturbed,
        "cpu_affinity": affinity(typed.cpu_affinity), "heap": typed.heap,
        "settings": typed.settings, "profile": typed.profiling or None,
        "phases": False if typed.no_phases else None, "nvtx": typed.nvtx or None,
        "foresee": False if typed.no_foresight else None,
        "target": target, "aim": target, "within_s": positive_s("--within", typed.within),
        "budget_s": positive_s("--budget", typed.budget), "timeout_s": positive_s("--timeout", typed.timeout),
        "warmup_budget_s": positive_s("--warmup-budget", typed.warmup_budget),
        "time_limit_s": positive_s("--time-limit", typed.time_limit),
        "telemetry_period_s": duration_s(typed.telemetry, "--telemetry") if typed.telemetry is not None else None,
    }  # fmt: skip
    given = {name: value for name, value in changes.items() if value is not None}
    device = ",".join(_device(word) for word in words_of(typed.device))
    return msgspec.structs.replace(
        request, procedure=msgspec.structs.replace(request.procedure, **given), name=typed.name or request.name,
        device=device or request.device, absent_ok=request.absent_ok and not device,
    )  # fmt: skip


def positive_s(flag: str, text: str | None) -> float | None:
    """Return the duration that a flag gives, in seconds; None where it was not given. Raises UsageError."""
    from torchstone.core.units import duration_s

    if text is None:
        return None
    if (found := duration_s(text, flag)) <= 0.0:
        raise UsageError(f"{flag} {text}: must be more than 0 s")
    return found


def _device(word: str) -> str:
    from torchstone.config.run_file import device_fault

    if (fault := device_fault(word)) is not None:
        raise UsageError(f"--device {fault}")
    return word


def at_least(flag: str, value: int | None, least: int) -> int | None:
    """Return the count that a flag gives; None where it was not given. Raises UsageError for one that is too small."""
    if value is not None and value < least:
        raise UsageError(f"{flag} {value} is too small: {least} or more")
    return value

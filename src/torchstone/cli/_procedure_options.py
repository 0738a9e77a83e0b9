"""The options that say how to measure: the Procedure."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.cli._parsing import words_of
from torchstone.core.errors import UsageError
from torchstone.core.schema.procedure import DISTURBED, HEAPS

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest

# What `asked` reads and a live comparison does not use: it decides itself how long it measures.
_OF_TRIALS = (
    "trials", "iterations", "target", "within", "budget", "time_limit", "telemetry", "no_phases", "nvtx", "profiling",
    "no_foresight", "first", "cpu_affinity", "disturbed",
)  # fmt: skip


def add_procedure(parser: argparse.ArgumentParser, *, sides: bool = False) -> None:
    """Add the options. `sides`: only those that apply to the interleaved sides of `ab`."""
    how = parser.add_argument_group("how to measure")
    if sides:
        parser.set_defaults(**dict.fromkeys(_OF_TRIALS))
    else:
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
    from torchstone.execution.locality import usable

    kept = affinity_word(word)
    if kept != NEAR_DEVICE:  # which is asked of the device, in the trial
        usable(kept, None)
    return kept


def with_procedure(request: RunRequest, options: argparse.Namespace) -> RunRequest:
    """Return the request with the procedure, name and devices that were typed. Raises UsageError for a wrong one."""
    from torchstone.config.durations import duration_s, share

    target = share(options.target, "--target") if options.target is not None else None
    changes: dict[str, Any] = {
        "trials": at_least("--trials", options.trials, 1), "warmup": at_least("--warmup", options.warmup, 0),
        "iterations": at_least("--iterations", options.iterations, 1), "seed": at_least("--seed", options.seed, 0),
        "isolation": options.isolation, "disturbed": options.disturbed,
        "cpu_affinity": affinity(options.cpu_affinity), "heap": options.heap,
        "settings": options.settings, "profile": options.profiling or None,
        "phases": False if options.no_phases else None, "nvtx": options.nvtx or None,
        "foresee": False if options.no_foresight else None,
        "target": target, "aim": target, "within_s": positive_s("--within", options.within),
        "budget_s": positive_s("--budget", options.budget), "timeout_s": positive_s("--timeout", options.timeout),
        "warmup_budget_s": positive_s("--warmup-budget", options.warmup_budget),
        "time_limit_s": positive_s("--time-limit", options.time_limit),
        "telemetry_period_s": duration_s(options.telemetry, "--telemetry") if options.telemetry is not None else None,
    }  # fmt: skip
    given = {name: value for name, value in changes.items() if value is not None}
    typed = ",".join(_device(word) for word in words_of(options.device))
    return msgspec.structs.replace(
        request, procedure=msgspec.structs.replace(request.procedure, **given), name=options.name or request.name,
        device=typed or request.device, absent_ok=request.absent_ok and not typed,
    )  # fmt: skip


def positive_s(flag: str, text: str | None) -> float | None:
    """Return the duration that a flag gives, in seconds; None where it was not given. Raises UsageError."""
    from torchstone.config.durations import duration_s

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

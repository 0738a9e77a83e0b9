"""The flags that say how to measure: the Procedure."""

from __future__ import annotations

import argparse

from torchstone.core.schema.procedure import HEAPS

# What `asked` reads, and a live comparison has no use for: it decides itself how long it measures, and nothing else.
_OF_TRIALS = (
    "trials", "iterations", "target", "within", "budget", "time_limit", "telemetry", "no_phases", "nvtx", "profiling",
    "no_foresight", "first",
)  # fmt: skip


def add_procedure(parser: argparse.ArgumentParser, *, sides: bool = False) -> None:
    """Add them. `sides`: without those that would say nothing to two sides that take turns."""
    how = parser.add_argument_group("how")
    if sides:
        parser.set_defaults(**dict.fromkeys(_OF_TRIALS))
    else:
        _add_of_trials(how)
    how.add_argument("--warmup", type=int, metavar="N", help="least warm-up steps (default: detected)")
    most = "0.1s, and no more" if sides else "3s"
    how.add_argument(
        "--warmup-budget", metavar="T", help=f"most time of warm-up, but for its least steps (default {most})"
    )
    how.add_argument("--timeout", metavar="T", help="most time of a trial (default 10m)")
    how.add_argument("--seed", type=int, metavar="N", help="seed of data, weights and order (default 0)")
    how.add_argument(
        "--isolation", choices=("auto", "fork", "spawn"), help="how a trial's process starts (default auto)"
    )
    add_heap(how, "huge" if sides else "fixed")
    if sides:
        how.add_argument(
            "--pin-threads", action=argparse.BooleanOptionalAction, default=None,
            help="OpenMP's threads of both sides stay on a logical core each (default)",
        )  # fmt: skip
    how.add_argument("--name", help="name of the run (default: the recipe's)")


def add_heap(how: argparse._ArgumentGroup, usual: str = "fixed") -> None:
    """Add --heap. `usual`: what the command does where nobody says it."""
    told = f"malloc policy: fixed = keep freed memory; huge = also use huge pages (default {usual})"
    how.add_argument("--heap", choices=HEAPS, help=told)


def _add_of_trials(how: argparse._ArgumentGroup) -> None:
    how.add_argument(
        "--within", metavar="T",
        help="most time of the whole command (default: half a minute and 25 s a case, and three trials of each)",
    )  # fmt: skip
    how.add_argument(
        "--trials", type=int, metavar="N",
        help="fresh processes a case (default: many short ones, until each throughput is known to ±target)",
    )  # fmt: skip
    how.add_argument(
        "--iterations", "--steps", type=int, metavar="N",
        help="exactly so many steady steps (default: until ±target or budget)",
    )  # fmt: skip
    how.add_argument(
        "--target", metavar="P",
        help="how well a throughput is to be known (default 5%%); with --trials: stop a window at it (default 1%%)",
    )  # fmt: skip
    how.add_argument("--budget", metavar="T", help="most time of a window (default 5s)")
    how.add_argument(
        "--time-limit", metavar="T", help="of the whole run: start no trial after it; `torchstone resume` goes on"
    )
    how.add_argument("--telemetry", metavar="T", help="period of the gauges (default 500ms; 0: off)")
    how.add_argument("--no-phases", action="store_true", help="leave out the pass that tells where a step's time goes")
    how.add_argument("--nvtx", action="store_true", help="NVTX ranges around steps and phases, for nsys")
    how.add_argument(
        "--profiling", action="store_true", help="also a torch.profiler trace of each case, after its windows"
    )
    how.add_argument("--no-foresight", action="store_true", help="try even what cannot end well, for want of memory")

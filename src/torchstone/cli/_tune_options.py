"""The flags of tune: what is best, what it must keep to, what may vary."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from torchstone.cli._parsing import words_of
from torchstone.cli._program import program_request, values_of
from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import Constraints
from torchstone.core.schema.axis import Scalar, axis_named
from torchstone.core.schema.procedure import Procedure

if TYPE_CHECKING:
    from torchstone.workflows.run.planned_run import ProgramRequest
    from torchstone.workflows.tune.specification import TuneRequest

_BYTES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(%|[a-z]*)\s*", re.IGNORECASE | re.ASCII)
N = TypeVar("N", int, float)
# --quick: a first answer in a minute. Short windows and few probes; as many rounds, or no gain could be told.
_QUICK = {"budget_s": 0.8, "warmup_budget_s": 0.4}
_USUAL = {"budget_s": 2.0, "warmup_budget_s": 1.5}
_QUICK_PROBES = 10
_SEARCH_SHARE = 0.5  # of --within; the rest is for the final round and the answer


def add_tune_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of tune."""
    best = parser.add_argument_group("objective and constraints")
    best.add_argument(
        "--objective", default="throughput", help="throughput (default), latency, efficiency (items/s/GB) or energy"
    )
    best.add_argument(
        "--max-memory", metavar="SIZE", help="maximum peak memory: 80%% of the device's, or 20GB (default 90%%)"
    )
    best.add_argument(
        "--max-latency", metavar="T", help="maximum time of a batch (training: of a step), for example 50ms"
    )
    best.add_argument("--min-throughput", type=float, metavar="X", help="minimum items per second")
    best.add_argument("--effective-batch", type=int, metavar="N", help="keep batch size × gradient accumulation at N")
    best.add_argument(
        "--learning-rate-rule",
        choices=("sqrt", "linear", "none"),
        default="sqrt",
        help="how the learning rate follows the effective batch (default sqrt)",
    )
    how = parser.add_argument_group("search")
    how.add_argument("--quick", action="store_true", help="quick first answer: few probes, short windows")
    how.add_argument("--only", metavar="AXES", help="vary only these axes, for example num_workers")
    how.add_argument(
        "--present",
        metavar="SETTINGS",
        help="your current settings, such as batch_size=32,num_workers=0 (default: those of the file)",
    )
    how.add_argument("--searcher", default="adaptive", help="adaptive (default), grid, random, optuna")
    how.add_argument("--probes", type=int, metavar="N", help="maximum number of probes of the search")
    how.add_argument("--search-time", metavar="T", help="maximum trial-seconds of the search, without the final round")
    how.add_argument(
        "--apply", type=Path, metavar="FILE", help="write the best settings into this YAML, JSON or TOML file"
    )
    how.add_argument(
        "--for",
        dest="cards",
        nargs="+",
        metavar="CARD",
        help="measure nothing: predict which of the candidate settings would fit this card, for example h100-80gb",
    )


def tune_asked(options: argparse.Namespace) -> tuple[TuneRequest, ProgramRequest | None]:
    """Return the request that recipe and flags make together, and the program behind --. Raises UsageError."""
    from torchstone.cli._run_options import asked
    from torchstone.config.applying import present_settings
    from torchstone.config.run_file import RunRequest
    from torchstone.core.units import duration_s
    from torchstone.workflows.tune.specification import TuneRequest

    program = program_request(options) if options.program is not None else None
    if program is not None:
        _refuse(options)
        request = RunRequest(workloads=(), name=program.name, device=program.device, procedure=program.procedure)
    elif options.recipe is None and options.config is None and options.model is None:
        raise UsageError("nothing to tune: name a recipe (torchstone list recipes), a file, a --model or -- COMMAND")
    else:
        request = asked(options)
    given = {
        name: value
        for name, value in (_QUICK if options.quick else _USUAL).items()
        if getattr(request.procedure, name) == getattr(Procedure(), name)  # neither flag nor file says otherwise
    }
    request = msgspec.structs.replace(request, procedure=msgspec.structs.replace(request.procedure, **given))
    size, share = _memory(options.max_memory)
    constraints = Constraints(
        max_memory_bytes=size,
        max_latency_s=duration_s(options.max_latency, "--max-latency") if options.max_latency is not None else None,
        min_throughput=_positive("--min-throughput", options.min_throughput),
        effective_batch=_positive("--effective-batch", options.effective_batch),
    )
    probes = _positive("--probes", options.probes)
    if program is not None:
        program = msgspec.structs.replace(program, procedure=request.procedure)
    wanted = TuneRequest(
        run=request,
        objective=options.objective,
        searcher=options.searcher,
        fixed=_fixed(options) if program is None else {},
        present=_present(options.present, program),
        found=present_settings(options.apply) if options.apply is not None else {},
        only=tuple(words_of([options.only] if options.only else None)),
        constraints=constraints,
        max_memory_share=share,
        learning_rate_rule=None if options.learning_rate_rule == "none" else options.learning_rate_rule,
        most_cost_s=_search_time_s(options),
        most_probes=probes if probes is not None or not options.quick else _QUICK_PROBES,
    )
    return wanted, program


def _fixed(options: argparse.Namespace) -> dict[str, Scalar]:
    from torchstone.cli._run_options import WorkloadTyped, axes_of

    return {axis: values[0] for axis, values in axes_of(WorkloadTyped.of(options)).items() if len(values) == 1}


def _refuse(options: argparse.Namespace) -> None:
    """Raise UsageError for flags that a program, of which the axes alone are known, does not have."""
    given = {
        "--only": options.only,
        "--effective-batch": options.effective_batch,
        "--for": options.cards,
        "--learning-rate-rule": options.learning_rate_rule != "sqrt",
        "--let-finish": options.let_finish,
    }
    if wrong := [flag for flag, value in given.items() if value]:
        raise UsageError(f"{wrong[0]}: not for a program; its axes are the {{name}} of its command")


def _search_time_s(options: argparse.Namespace) -> float | None:
    """Return the most time of the search: as given, or half of what the whole command has."""
    from torchstone.cli._procedure_options import positive_s

    within_s = positive_s("--within", options.within)
    given_s = positive_s("--search-time", options.search_time)
    return given_s if given_s is not None else _SEARCH_SHARE * within_s if within_s is not None else None


def _memory(text: str | None) -> tuple[float | None, float | None]:
    """Return (bytes, None) or (None, share of the device's memory)."""
    if text is None:
        return None, None
    match = _SIZE.fullmatch(text)
    unit = match[2].lower() if match is not None else ""
    value = float(match[1]) if match is not None else 0.0
    if value <= 0.0 or (unit != "%" and unit not in _BYTES) or (unit == "%" and value > 100.0):
        raise UsageError(f"--max-memory {text}: write a share or a size, for example 80% or 20GB")
    return (None, value / 100.0) if unit == "%" else (value * _BYTES[unit], None)


def _present(text: str | None, program: ProgramRequest | None) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for word in words_of([text] if text else None):
        axis, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--present {text}: write AXIS=VALUE,AXIS=VALUE, for example batch_size=32,num_workers=0")
        if program is None:
            found[axis] = axis_named(axis).parse(value, f"--present {axis}")
        else:
            found[axis] = values_of(axis, value)[0]
    return found


def _positive(flag: str, value: N | None) -> N | None:
    if value is not None and value <= 0:
        raise UsageError(f"{flag} {value:g}: must be more than 0")
    return value

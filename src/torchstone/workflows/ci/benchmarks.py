"""From run files to benchmarks: each workload at each value of its axes is one, and one comparison of both commits.

A command is one benchmark, too.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.config.recipe_files import load_request
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import model_name
from torchstone.core.schema.ci import MOST_BENCHMARKS
from torchstone.core.schema.request import WorkloadRequest
from torchstone.workflows.ab.experiment import as_ab_does
from torchstone.workflows.run.program_run import ProgramRequest, check, name_of

_LONGEST = 200


class Benchmark(msgspec.Struct, frozen=True):
    """One workload with one value of every axis, or a command (`program`).

    `words`: what `torchstone ab BASE HEAD` takes for it; or none.
    """

    name: str
    request: RunRequest
    words: tuple[str, ...]
    program: ProgramRequest | None = None


def benchmarks(files: Sequence[str]) -> list[Benchmark]:
    """Return the benchmarks of run files or recipes, with names of their own. Raises UsageError, naming the file."""
    found = [one for word in files for one in _of_file(word)]
    if len(found) > MOST_BENCHMARKS:
        raise UsageError(f"{len(found)} benchmarks are too many: {MOST_BENCHMARKS} at most; give fewer values of axes")
    twice = {name for name, count in Counter(one.name for one in found).items() if count > 1}
    named = []
    for place, one in enumerate(found, 1):
        name = one.name if one.name not in twice else f"{one.name[: _LONGEST - 6]}#{place}"
        named.append(msgspec.structs.replace(one, name=name))
    return named


def of_program(program: ProgramRequest) -> Benchmark:
    """Return the benchmark of a command. Raises UsageError for a place in it without a value."""
    check(program)
    request = RunRequest(workloads=(), name=program.name, device=program.device, procedure=program.procedure)
    words = (*(("--step", program.step) if program.step != "auto" else ()), "--", *program.words)
    return Benchmark(name_of(program)[:_LONGEST], request, words if _sayable(words) else (), program)


def _sayable(words: Sequence[str]) -> bool:
    return len(words) <= 30 and all(len(one) <= 300 for one in words)


def _of_file(word: str) -> Iterator[Benchmark]:
    request = load_request(word)
    if "," in request.device:
        raise UsageError(f"{word}: device {request.device}: a benchmark has one device; write a file for each")
    stem = request.name or Path(word).stem
    tasks = Counter(workload.task for workload in request.workloads)
    for workload in request.workloads:
        varied = [name for name, values in workload.axes.items() if len(values) > 1]
        points = list(_points(workload, varied, request))
        if not points:
            raise UsageError(f"{word}: exclude leaves nothing of {workload.task} {workload.model}")
        for point in points:
            yield _benchmark(word, stem, request, workload, point, tasks)


def _points(workload: WorkloadRequest, varied: Sequence[str], request: RunRequest) -> Iterator[Mapping[str, Scalar]]:
    fixed = {name: values[0] for name, values in workload.axes.items() if len(values) == 1}
    for values in itertools.product(*(workload.axes[name] for name in varied)):
        point = dict(zip(varied, values, strict=True))
        if not any(condition.holds({**fixed, **point}) for condition in request.exclude):
            yield point


def _benchmark(
    word: str, stem: str, request: RunRequest, workload: WorkloadRequest, point: Mapping[str, Scalar],
    tasks: Mapping[str, int],
) -> Benchmark:  # fmt: skip
    parts = [stem]
    if len(tasks) > 1:
        parts.append(workload.task)
    if tasks[workload.task] > 1:
        parts.append(model_name(workload.model))
    parts += [f"{name}={value}" for name, value in point.items()]
    axes = {**workload.axes, **{name: (value,) for name, value in point.items()}}
    alone = msgspec.structs.replace(
        request, workloads=(msgspec.structs.replace(workload, axes=axes),), exclude=(),
        procedure=as_ab_does(request.procedure),
    )  # fmt: skip
    words = ["--config", word, *(["--task", workload.task] if len(tasks) > 1 else [])]
    words += [text for name, value in point.items() for text in ("--axis", f"{name}={_typed(value)}")]
    sayable = tasks[workload.task] == 1 and _sayable(words)
    return Benchmark("/".join(parts)[:_LONGEST], alone, tuple(words) if sayable else ())


def _typed(value: Scalar) -> str:
    """Return a value of an axis as --axis takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Find the fastest safe settings of a model on this device, at a few percent of the cost of measuring all.

torchstone tune distilbert --data tsv:train.tsv
torchstone tune -- python train.py --batch_size {batch_size}    (a program as you type it)
torchstone tune my-run.yaml --max-memory 80% --apply my-run.yaml
torchstone tune my-run.yaml --effective-batch 1024 --objective energy
torchstone tune my-run.yaml --only num_workers --present batch_size=64
torchstone tune distilbert --task infer --axis runtime=eager,onnxruntime,openvino --save-model best
torchstone tune gpt2 --task train --for h100-80gb       (predicts what would fit; measures nothing)
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from torchstone.cli._applying import add_save_model, save_model
from torchstone.cli._measuring import ProgressLines, add_measuring, busy_of, run_and_report
from torchstone.cli._output import print_json, show_document
from torchstone.cli._parsing import split_words
from torchstone.cli._place import add_folder, add_push, folder_of, push_to, writable
from torchstone.cli._run_options import (
    add_program,
    add_run_options,
    axes_from,
    positive_s,
    program_request,
    program_values,
    request_from,
)
from torchstone.core import units
from torchstone.core.errors import ExitCode, TorchstoneError, UsageError
from torchstone.core.schema.answer import Constraints, TuneSpec
from torchstone.core.schema.axis import LOADER_AXES, Scalar, axis_named
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.search import PATIENCE_S, Part, Probe, ProbeResult
from torchstone.core.schema.trial import Purpose, Status, Trial

if TYPE_CHECKING:
    from torchstone.workflows.run.planned_run import ProgramRequest, Results
    from torchstone.workflows.tune.specification import TuneRequest

MEASURES_PROGRAMS = True  # behind --

_BYTES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(%|[a-z]*)\s*", re.IGNORECASE | re.ASCII)
N = TypeVar("N", int, float)
# --quick: a first answer in a minute. Short windows and few probes; as many rounds, or no gain could be told.
_QUICK = {"budget_s": 0.8, "warmup_budget_s": 0.4}
_USUAL = {"budget_s": 2.0, "warmup_budget_s": 1.5}
_QUICK_PROBES = 10
_SEARCH_SHARE = 0.5  # of --within; the rest is for the final round and the answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of tune."""
    best = parser.add_argument_group("objective and constraints")
    best.add_argument(
        "--objective",
        default="throughput",
        help="throughput (default), latency (median of a batch), efficiency (items/s/GB), energy or memory",
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
    add_save_model(how)
    how.add_argument(
        "--for",
        dest="cards",
        nargs="+",
        metavar="CARD",
        help="measure nothing: predict which of the candidate settings would fit this card, for example h100-80gb",
    )
    add_run_options(parser)
    add_measuring(parser)
    add_program(parser)
    add_push(parser)
    add_folder(parser)


def _tune_request(options: argparse.Namespace) -> tuple[TuneRequest, ProgramRequest | None]:
    """Return the request that recipe and flags make together, and the program behind --. Raises UsageError."""
    from torchstone.config.applying import present_settings
    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.tune.specification import TuneRequest

    program = program_request(options) if options.program is not None else None
    if program is not None:
        _refuse_options(options)
        request = RunRequest(workloads=(), name=program.name, device=program.device, procedure=program.procedure)
    elif options.recipe is None and options.config is None and options.model is None:
        raise UsageError("nothing to tune: name a recipe (torchstone list recipes), a file, a --model or -- COMMAND")
    else:
        request = request_from(options)
    given = {
        name: value
        for name, value in (_QUICK if options.quick else _USUAL).items()
        if getattr(request.procedure, name) == getattr(Procedure(), name)  # neither flag nor file says otherwise
    }
    request = msgspec.structs.replace(request, procedure=msgspec.structs.replace(request.procedure, **given))
    size, share = _memory(options.max_memory)
    constraints = Constraints(
        max_memory_bytes=size,
        max_latency_s=units.duration_s(options.max_latency, "--max-latency")
        if options.max_latency is not None
        else None,
        min_throughput=_positive("--min-throughput", options.min_throughput),
        effective_batch=_positive("--effective-batch", options.effective_batch),
        quality_margin=request.procedure.quality_margin,
    )
    probes = _positive("--probes", options.probes)
    if program is not None:
        program = msgspec.structs.replace(program, procedure=request.procedure)
    single = (
        {axis: values[0] for axis, values in axes_from(options).items() if len(values) == 1} if program is None else {}
    )
    tune = TuneRequest(
        run=request,
        objective=options.objective,
        searcher=options.searcher,
        fixed=single,
        present=_present(options.present, program),
        found=present_settings(options.apply) if options.apply is not None else {},
        only=tuple(split_words([options.only] if options.only else None)),
        constraints=constraints,
        max_memory_share=share,
        learning_rate_rule=None if options.learning_rate_rule == "none" else options.learning_rate_rule,
        most_cost_s=_search_time_s(options),
        most_probes=probes if probes is not None or not options.quick else _QUICK_PROBES,
    )
    return tune, program


def _refuse_options(options: argparse.Namespace) -> None:
    """Raise UsageError for flags that a program, of which the axes alone are known, does not have."""
    given = {
        "--only": options.only,
        "--effective-batch": options.effective_batch,
        "--for": options.cards,
        "--learning-rate-rule": options.learning_rate_rule != "sqrt",
        "--let-finish": options.let_finish,
        "--save-model": options.save_model,
    }
    if wrong := [flag for flag, value in given.items() if value]:
        raise UsageError(f"{wrong[0]}: not for a program; its axes are the {{name}} of its command")


def _search_time_s(options: argparse.Namespace) -> float | None:
    """Return the most time of the search: as given, or half of what the whole command has."""
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
    present: dict[str, Scalar] = {}
    for word in split_words([text] if text else None):
        axis, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--present {text}: write AXIS=VALUE,AXIS=VALUE, for example batch_size=32,num_workers=0")
        if program is None:
            present[axis] = axis_named(axis).parse(value, f"--present {axis}")
        else:
            present[axis] = program_values(axis, value)[0]
    return present


def _positive(flag: str, value: N | None) -> N | None:
    if value is not None and value <= 0:
        raise UsageError(f"{flag} {value:g}: must be more than 0")
    return value


def run(options: argparse.Namespace) -> int:
    """Search, print the answer, and write it into the user's file where asked."""
    if options.cards is not None and options.program is None:
        if options.push or options.save_model is not None:
            raise UsageError("--for predicts and measures nothing: there is no run to --push, no model to save")
        return _print_fitting(options)
    from torchstone.workflows.tune.program_tune import ProgramTune
    from torchstone.workflows.tune.tune import TuneCampaign

    folder, team = writable(folder_of(options)), push_to(options)
    (request, program), busy = _tune_request(options), busy_of(options)
    path = _save_path(options, request)
    progress = TuneProgress(quiet=options.quiet, verbose=options.debug)
    done: list[Results] = []
    campaign: TuneCampaign | ProgramTune = (
        TuneCampaign(request, progress, busy) if program is None else ProgramTune(request, program, progress, busy)
    )

    def carry_out() -> Results:
        done.append(campaign.carry_out(folder, sys.argv[1:]))
        return done[0]

    code = run_and_report(options, folder, progress, carry_out, team=team)
    if not done:
        return code
    code = _apply(options, done[0]) or code
    if path is not None and done[0].summary.answer is not None:
        save_model(options, done[0].summary, path)
    return code


def _save_path(options: argparse.Namespace, request: TuneRequest) -> Path | None:
    """Return where the model is to be written. Raises UsageError where it cannot be, before anything is measured."""
    if options.save_model is None:
        return None
    from torchstone.workflows.tune.saving import checked_path

    if any(workload.task != "infer" for workload in request.run.workloads):
        raise UsageError("--save-model: only a model of task infer can be saved: add --task infer")
    return checked_path(options.save_model)


def _apply(options: argparse.Namespace, results: Results) -> int:
    """Apply the answer where asked. Raises TorchstoneError, exit 1, where there is none."""
    from torchstone.cli._applying import apply_answer
    from torchstone.storage.query import read_run
    from torchstone.workflows.tune.tune import no_answer

    summary = results.summary
    if summary.answer is None and summary.status == "done":
        raise TorchstoneError(str(no_answer(read_run(Path(summary.record)))))
    if options.apply is not None and summary.answer is not None:
        apply_answer(options.apply, summary)
    return 0


def _print_fitting(options: argparse.Namespace) -> int:
    """Print what fits each card; return the exit code: 1 where nothing does."""
    from torchstone.cli.memory_command import cards_of, show_tracing
    from torchstone.workflows.memory import answer_all, count_that_fit, shapes_only, tried_on

    request, _ = _tune_request(options)
    request = msgspec.structs.replace(request, run=shapes_only(request.run))
    tried = {card: tried_on(request, card) for card in cards_of(options.cards)}
    answer = answer_all(request.run, [one for each in tried.values() for one in each.questions], show_tracing(options))
    counts = {
        card.title: (count_that_fit(each, [row for row in answer.rows if row.card == card.title]), len(each.points))
        for card, each in tried.items()
    }
    if options.json:
        from torchstone.report.documents.memory import memory_json

        points = {card: {"fit": fit, "of": of} for card, (fit, of) in counts.items()}
        print_json({**memory_json(answer), "points": points})
    else:
        from torchstone.report.documents.memory import memory_document

        fits = "; ".join(f"{card}: {fit} of {of}" for card, (fit, of) in counts.items())
        show_document(memory_document(answer, f"Settings that fit, of those that tune would try: {fits}."))
    return ExitCode.DONE if any(fit for fit, _ in counts.values()) else ExitCode.NO


_STAGES = {Part.LOADER: "loader-only throughput", Part.DEVICE: "device-only throughput", Part.WHOLE: "whole step"}


class TuneProgress(ProgressLines):
    """A TuneWatcher (workflows/tune/watching.py) that writes a line per probe, below the part that it measures."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        super().__init__(quiet=quiet, verbose=verbose)
        self._stage: str | None = None
        self._spec: TuneSpec | None = None
        self._replicates = 0

    def searching(self, spec: TuneSpec, points: int) -> None:
        """Print the objective, and the number of settings."""
        self._spec = spec
        axes = ", ".join(f"{axis} ({len(values)})" for axis, values in spec.axes.items())
        workload = spec.base.workload
        self.say(f"tuning {workload.task} {workload.model} on {spec.base.placement} for {spec.objective}:")
        most = f", about {PATIENCE_S / 60:g} min of probes at most (--within T for all of it)" * (
            spec.searcher == "adaptive" and spec.most_cost_s is None and spec.most_probes is None
        )
        self.say(f"{points} settings of {axes}; searcher {spec.searcher}{most}")
        if "num_workers" not in spec.axes and workload.data in ("synthetic", "example"):
            own = workload.data == "example" and spec.base.configuration.get("feed") == "loader"
            none = "its batches are used as they come" if own else f"data {workload.data} has no loader to tune"
            how = "return the Dataset" if own else "name --data"
            self.say(f"{none}: {how} to tune workers, too")

    def probing(self, probe: Probe, number: int) -> None:
        """Name the stage when it changes."""
        self.stage(_STAGES[probe.part])

    def learned(self, reading: ProbeResult) -> None:
        """Print the result of a probe."""
        shown = {axis: value for axis, value in reading.probe.point.items() if self._matters(axis, reading)}
        point = ", ".join(f"{axis} {value}" for axis, value in shown.items())
        if reading.status != Status.OK:
            self.say(f"  {point}: {reading.status}")
            return
        rate = units.quantity(reading.value, "items/s") if self._is_rate(reading) else self._objective(reading.value)
        rate = f"quality {reading.quality}" if reading.quality is not None else rate
        waits = f", waits {units.quantity(reading.wait_share, 'ratio')} for data" if self._waits(reading) else ""
        beyond = "" if reading.allowed else ", beyond a limit"
        why = f"   ({reading.probe.why})" if reading.probe.why else ""
        self.say(f"  {point}: {rate}, {units.quantity(reading.peak_bytes, 'bytes')}{waits}{beyond}{why}")

    def stage(self, text: str) -> None:
        """Print a heading where the stage is another than before."""
        if text != self._stage:
            self._stage = text
            self.say(f"{text}:")

    def finished(self, trial: Trial) -> None:
        """Print that a trial of the final round has ended; `learned` prints probes."""
        if trial.purpose == Purpose.REPLICATE:
            self._replicates += 1
            ended = "" if trial.outcome.status == Status.OK else f": {trial.outcome.status}"
            self.say(f"  trial {self._replicates} ({units.quantity(trial.duration_s, 's')}){ended}")

    def _matters(self, axis: str, reading: ProbeResult) -> bool:
        if axis == "batch_size" or reading.probe.part == Part.WHOLE:
            return True
        return (axis in LOADER_AXES) == (reading.probe.part == Part.LOADER)

    def _is_rate(self, reading: ProbeResult) -> bool:
        return reading.probe.part != Part.WHOLE or (
            self._spec is not None and self._spec.objective in ("throughput", "efficiency")
        )

    def _objective(self, value: float | None) -> str:
        unit = "J" if self._spec is not None and self._spec.objective == "energy" else "s"
        return units.quantity(1.0 / value if value else None, unit)

    def _waits(self, reading: ProbeResult) -> bool:
        return reading.probe.part == Part.WHOLE and reading.wait_share is not None and reading.wait_share > 0.01

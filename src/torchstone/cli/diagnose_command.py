"""Find why a training or an inference is slow: bottlenecks with evidence, and remedies with their measured speed-up.

torchstone diagnose -- python train.py --batch_size 16    (a program as you type it)
torchstone diagnose latest
torchstone diagnose my-run.yaml --budget 2m --apply my-run.yaml
torchstone diagnose --task train --model py:mine.py:load --axis batch_size=32
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.cli._measuring import ProgressLines, add_measuring, busy_of, exit_code_of, interruptible
from torchstone.cli._output import diagnosis_json, print_json, run_json, show_document
from torchstone.cli._place import add_folder, folder_of, writable
from torchstone.cli._reports import add_plots, require_drawing, write_and_list_plots
from torchstone.cli._run_options import add_heap, add_program, add_workload, positive_s, program_request, request_from
from torchstone.config.recipe_files import is_recipe
from torchstone.core import units
from torchstone.core.errors import ExitCode, TorchstoneError, UsageError
from torchstone.core.schema.procedure import DISTURBED
from torchstone.execution.timing.clock import system_clock

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.diagnosis import Cause, Diagnosis
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.trial import Trial
    from torchstone.execution.controller.device_lock import WhenBusy
    from torchstone.workflows.diagnose.target import DiagnosisTarget
    from torchstone.workflows.run.planned_run import ProgramRequest, Results

MEASURES_PROGRAMS = True  # behind --


def _request(options: argparse.Namespace) -> RunRequest | None:
    """Return the request of a recipe, a file or flags; None where a stored run is meant. Raises UsageError."""
    word = options.recipe
    flags = options.model is not None or options.config is not None
    if word is None and not flags:
        if options.axes or options.data or options.device:
            raise UsageError("nothing to diagnose: name a run, a recipe (torchstone list recipes) or a --model")
        _refuse_options(options)
        return None
    if not flags and (not is_recipe(word) or (word.endswith(".json") and _is_run(Path(word)))):
        _refuse_options(options)
        return None
    if options.case is not None:
        raise UsageError("--case selects a case of a stored run; for a recipe use --axis")
    return request_from(options)


def _target(
    options: argparse.Namespace, request: RunRequest | None, folder: Path, progress: DiagnoseProgress, busy: WhenBusy
) -> DiagnosisTarget:
    """Return what is to be diagnosed. A request for several Cases is measured first, shortly."""
    from torchstone.analysis.summary import summarize
    from torchstone.storage.query import find
    from torchstone.workflows.diagnose.target import asks_for_one, brief_procedure, of_request, of_run, one_workload

    word = options.recipe or "latest"
    if request is not None and asks_for_one(request):
        return of_request(request)
    if request is not None:
        from torchstone.workflows.run.planned_run import Campaign

        brief = msgspec.structs.replace(
            request, workloads=(one_workload(request),), procedure=brief_procedure(request.procedure)
        )
        progress.say("measuring the requested cases")
        results = Campaign(brief, progress, busy).carry_out(folder, ["torchstone", "diagnose"])
        word = results.summary.run_id
    entry = find(folder, word)
    return of_run(entry, summarize(entry), options.case, measured_now=request is not None)


def _is_run(path: Path) -> bool:
    """Say whether a JSON file is a stored run and no run file."""
    from torchstone.storage.query import read_run

    try:
        read_run(path)
    except UsageError:
        return False
    return True


def _refuse_options(options: argparse.Namespace) -> None:
    """Raise UsageError for flags that say what to measure and how, where a stored run says so already."""
    given = {
        "--axis": options.axes,
        "--data": options.data,
        "--data-option": options.data_option,
        "--split": options.split,
        "--limit": options.limit,
        "--device": options.device,
        "--option": options.option,
        "--task": options.task,
        "--settings": options.settings,
        "--seed": options.seed,
        "--isolation": options.isolation,
        "--heap": options.heap,
        "--timeout": options.timeout,
    }
    wrong = next((flag for flag, value in given.items() if value is not None), None)
    if wrong is not None:
        word = options.recipe or "latest"
        raise UsageError(f"{wrong} needs a recipe or a --model; '{word}' is read as a stored run")


_BUDGET_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of diagnose."""
    what = add_workload(parser, "a stored run (path, id, prefix, name or latest), a recipe or a file (default: latest)")
    what.add_argument("--task", help="infer or train; with a recipe: only its workloads of this task")
    what.add_argument(
        "--case", metavar="ID", help="of a stored run: the case whose id begins with this (default: the best)"
    )
    how = parser.add_argument_group("how to measure")
    how.add_argument("--within", metavar="T", help="maximum time of the whole command (default: no limit)")
    how.add_argument(
        "--budget",
        dest="try_budget",
        metavar="T",
        help="maximum time to measure remedies, which begins when the present settings are measured (default 60s; 0: "
        "measure none); --within limits the whole command",
    )
    how.add_argument(
        "--apply", type=Path, metavar="FILE", help="write the best remedy into this YAML, JSON or TOML file"
    )
    add_plots(how)
    how.add_argument("--seed", type=int, metavar="N", help="random seed of data, weights and order (default 0)")
    how.add_argument(
        "--isolation", choices=("auto", "fork", "spawn"), help="how trial processes are started (default auto)"
    )
    how.add_argument(
        "--disturbed",
        choices=DISTURBED,
        help="beside busy programs: replace = name no cause, keep = diagnose what was measured (default replace)",
    )
    add_heap(how)
    how.add_argument("--timeout", metavar="T", help="maximum time of a trial (default 10m)")
    add_measuring(parser)
    add_program(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Diagnose, print it, write the report, and apply what helped where asked."""
    folder = writable(folder_of(options))
    left_s, busy = _time_to_try(options), busy_of(options)
    program = program_request(options) if options.program is not None else None
    request = _request(options) if program is None else None
    if options.apply is not None:
        from torchstone.config.applying import check_target

        check_target(options.apply)
    if options.plots is not None:
        require_drawing()
    progress = DiagnoseProgress(quiet=options.quiet, verbose=options.debug)
    with interruptible():
        target = _target(options, request, folder, progress, busy) if program is None else program
        results, diagnosis = _diagnose(target, left_s, folder, progress, busy)
    status = "done" if results is None else results.summary.status
    if diagnosis is None or (status == "interrupted" and not diagnosis.causes):
        print(f"torchstone: {status} before any result", file=sys.stderr)
        return ExitCode.INTERRUPTED if status == "interrupted" else ExitCode.NO
    # Write the page, print the diagnosis, draw it and apply it where asked.
    from torchstone.report.documents.diagnosis import FILE, diagnosis_document
    from torchstone.report.rendering import write_markdown

    page = folder / "diagnostics" / diagnosis.run_id / FILE
    write_markdown(page, diagnosis_document(diagnosis), folder)
    if options.json:
        run = results.summary if results is not None else _run_of(target)
        print_json({**run_json(run), "answer": diagnosis_json(diagnosis), "report": str(page)})
    else:
        from torchstone.report.documents.run import measured_document

        document = diagnosis_document(diagnosis, page) if results is None else measured_document(results, page)
        show_document(document)
    if options.plots is not None:
        write_and_list_plots(diagnosis_document(diagnosis), options.plots)
    if options.apply is not None:
        _apply(options.apply, diagnosis)
    return ExitCode.DONE if results is None else exit_code_of(results.summary, strict=options.strict)


def _time_to_try(options: argparse.Namespace) -> Callable[[], float]:
    """Return what tells how long remedies may be tried, once it is known what they are. Raises UsageError."""
    text = options.try_budget
    budget_s = 0.0 if text is not None and text.strip() in ("0", "0s") else positive_s("--budget", text)
    if (within_s := positive_s("--within", options.within)) is None:
        return lambda: _BUDGET_S if budget_s is None else budget_s
    ends_s = system_clock() + within_s
    return lambda: max(0.0, min(math.inf if budget_s is None else budget_s, ends_s - system_clock()))


def _diagnose(
    target: DiagnosisTarget | ProgramRequest,
    left_s: Callable[[], float],
    folder: Path,
    progress: DiagnoseProgress,
    busy: Any,
) -> tuple[Results | None, Diagnosis | None]:
    from torchstone.core.schema.diagnosis import Diagnosis
    from torchstone.workflows.diagnose.measured_diagnosis import DiagnosisCampaign, diagnosed_from_record
    from torchstone.workflows.diagnose.program_diagnosis import ProgramDiagnosis
    from torchstone.workflows.run.planned_run import ProgramRequest

    campaign: DiagnosisCampaign | ProgramDiagnosis
    if isinstance(target, ProgramRequest):
        campaign = ProgramDiagnosis(target, left_s, progress, progress.say, progress.suspects, busy)
    elif target.elsewhere is not None:
        return None, diagnosed_from_record(target)
    else:
        campaign = DiagnosisCampaign(target, left_s, progress, progress.say, progress.suspects, busy)
    results = campaign.carry_out(folder, sys.argv[1:])
    return results, results.summary.answer if isinstance(results.summary.answer, Diagnosis) else None


def _run_of(target: DiagnosisTarget | ProgramRequest) -> RunSummary:
    """Return the stored run that was diagnosed."""
    from torchstone.workflows.diagnose.target import DiagnosisTarget

    if not isinstance(target, DiagnosisTarget) or target.run is None:
        raise TorchstoneError(f"{target.name}: no recorded or measured result")
    return target.run


def _apply(path: Path, diagnosis: Diagnosis) -> None:
    from torchstone.cli._applying import write_settings

    applied = diagnosis.applied
    if applied is None or applied.gain is None:
        raise TorchstoneError(f"{path}: nothing written: no measured setting is faster")
    if not applied.what_if.settings:
        raise TorchstoneError(f"{path}: nothing written: {applied.what_if.name} is not a setting of a file")
    write_settings(path, applied.what_if.settings, str(diagnosis.case.workload.task))
    if applied.what_if.heap is not None:
        print(f"heap={applied.what_if.heap} is not a setting of a file: add --heap when you run", file=sys.stderr)


class DiagnoseProgress(ProgressLines):
    """A Watcher that writes each line with the time since the beginning; `say` takes those of the diagnosis itself."""

    def heard(self, event: Event) -> None:
        """Print the stage that a trial enters."""
        from torchstone.core.schema.message import Entered

        if self._verbose and isinstance(event, Entered):
            self.say(f"  {event.stage}")

    def finished(self, trial: Trial) -> None:
        """Print how long a trial took, with --debug."""
        if self._verbose:
            self.say(f"  {trial.trial_id}: {trial.outcome.status}, {units.quantity(trial.duration_s, 's')}")

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Print nothing: the diagnosis says what was busy."""

    def say(self, text: str) -> None:
        """Print a line."""
        super().say(f"{system_clock() - self._began_s:6.1f} s  {text}")

    def suspects(self, cause: Cause) -> None:
        """Name the first cause, before remedies are tried."""
        from torchstone.report.diagnosis_messages import text

        self.say(f"first suspect: {text(cause.title)}")

"""What `diagnose` was given: a stored run, or a recipe, file or flags that ask for one Case or for several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.cli._diagnose_progress import DiagnoseProgress
    from torchstone.config.run_file import RunRequest
    from torchstone.execution.controller.device_lock import WhenBusy
    from torchstone.workflows.diagnose.target import Target

_FILES = (".yaml", ".yml", ".toml")


def requested(options: argparse.Namespace) -> RunRequest | None:
    """Return the request of a recipe, a file or flags; None where a stored run is meant. Raises UsageError."""
    from torchstone.cli._run_options import asked
    from torchstone.config.recipe_files import recipe_names

    word = options.recipe
    flags = options.model is not None or options.config is not None
    if word is None and not flags:
        if options.axes or options.data or options.device:
            raise UsageError("nothing to diagnose: name a run, a recipe (torchstone list recipes) or a --model")
        _refuse(options)
        return None
    recipe = word is not None and (word in dict(recipe_names()) or Path(word).suffix.lower() in _FILES)
    json_file = word is not None and word.endswith(".json") and not _is_run(Path(word))
    if not (flags or recipe or json_file):
        _refuse(options)
        return None
    if options.case is not None:
        raise UsageError("--case selects a case of a stored run; for a recipe use --axis")
    return asked(options)


def target_of(
    options: argparse.Namespace, request: RunRequest | None, folder: Path, progress: DiagnoseProgress, busy: WhenBusy
) -> Target:
    """Return what is to be diagnosed. A request for several Cases is measured first, shortly."""
    from torchstone.analysis.summary import summarize
    from torchstone.storage.query import find
    from torchstone.workflows.diagnose.target import asks_for_one, of_request, of_run, one_workload, short

    word = options.recipe or "latest"
    if request is not None and asks_for_one(request):
        return of_request(request)
    if request is not None:
        from torchstone.workflows.run.planned_run import Campaign

        brief = msgspec.structs.replace(
            request, workloads=(one_workload(request),), procedure=short(request.procedure)
        )  # fmt: skip
        progress.say("measuring the requested cases")
        results = Campaign(brief, progress, busy).carry_out(folder, ["torchstone", "diagnose"])
        word = results.summary.run_id
    entry = find(folder, word)
    return of_run(entry, summarize(entry), options.case)


def _is_run(path: Path) -> bool:
    """Say whether a JSON file is a stored run and no run file."""
    from torchstone.storage.query import read_run

    try:
        read_run(path)
    except UsageError:
        return False
    return True


def _refuse(options: argparse.Namespace) -> None:
    """Raise UsageError for flags that say what to measure and how, where a stored run says so already."""
    given = {
        "--axis": options.axes, "--data": options.data, "--data-option": options.data_option, "--split": options.split,
        "--limit": options.limit, "--device": options.device, "--option": options.option, "--task": options.task,
        "--settings": options.settings, "--seed": options.seed, "--isolation": options.isolation,
        "--heap": options.heap, "--timeout": options.timeout,
    }  # fmt: skip
    wrong = next((flag for flag, value in given.items() if value is not None), None)
    if wrong is not None:
        word = options.recipe or "latest"
        raise UsageError(f"{wrong} needs a recipe or a --model; '{word}' is read as a stored run")

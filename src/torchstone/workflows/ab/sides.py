"""From requests to the two sides of an experiment: one case each, on one device."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Task, Workload
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Inspected
from torchstone.execution import plan
from torchstone.workflows.run.planned_run import ProgramRequest, check, configurations, workload_of

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest

WORK_TREE = "."  # the word for the files as they are now
_PATIENCE_S = 120.0


class Revision(msgspec.Struct, frozen=True):
    """One revision: the user's word for it, its commit (None: the work tree), and how it is called in tables."""

    word: str
    commit: str | None
    label: str


def find(word: str, here: Path) -> Revision:
    """Return what the word means in the repository around `here`, without touching anything.

    Raises UsageError where there is no repository or no such revision, MissingError where there is no git.
    """
    if word == WORK_TREE:
        changed = uncommitted(here)
        what = f"{changed} changed file{'s' * (changed > 1)}"
        return Revision(word, None, f"work tree ({what})" if changed else "work tree (no change)")
    if word.startswith("-"):
        raise UsageError(f"'{word}' is not a revision")
    try:
        commit = _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}").strip()
    except UsageError:
        try:
            _git(here, "rev-parse", "--git-dir")
        except UsageError as fault:  # there is no repository, or one that git does not trust
            raise UsageError(f"'{word}' is neither a recipe nor a file (.yaml, .json, .toml), and {fault}") from None
        raise UsageError(_unknown(word, here)) from None
    return Revision(word, commit, word if commit.startswith(word) else f"{word} ({commit[:9]})")


def _unknown(word: str, here: Path) -> str:
    """Return what is wrong with a word that means nothing in a repository, and what to type."""
    if not _git(here, "rev-list", "--all", "--max-count=1").strip():
        return f"'{word}': this repository has no commit yet: git add and git commit first"
    if is_shallow(here):
        return f"'{word}' is not in this clone, which is shallow: git fetch --unshallow"
    return f"'{word}' is neither a recipe, a file, nor a revision of this repository (see git branch --all)"


def is_shallow(here: Path) -> bool:
    """Return whether the clone around `here` lacks older commits. Raises UsageError outside of a repository."""
    return _git(here, "rev-parse", "--is-shallow-repository").strip() == "true"


def uncommitted(here: Path) -> int:
    """Return how many tracked files differ from the last commit."""
    return len(_git(here, "status", "--porcelain", "--untracked-files=no").splitlines())


def merge_base(one: str, other: str, here: Path) -> str:
    """Return the newest commit that both commits come from. Raises UsageError where there is none here."""
    try:
        return _git(here, "merge-base", "--end-of-options", one, other).split()[0]
    except (UsageError, IndexError):
        deeper = "fetch the whole history (actions/checkout: fetch-depth: 0)"
        raise UsageError(f"{one[:9]} and {other[:9]} have no commit in common here: {deeper}") from None


def committed_utc(commit: str, here: Path) -> str:
    """Return when a commit was made, in UTC (ISO 8601, to the second). Raises UsageError."""
    shown = _git(here, "show", "--no-patch", "--no-show-signature", "--format=%ct", "--end-of-options", commit)
    return datetime.fromtimestamp(int(shown.split()[0]), UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def checked_out(revision: Revision, here: Path) -> Iterator[Path]:
    """Give the folder that corresponds to `here` in the revision; a work tree of its own is removed at the end.

    Raises UsageError where the revision does not have that folder.
    """
    if revision.commit is None:
        yield here
        return
    inside = Path(_git(here, "rev-parse", "--show-prefix").strip())
    with tempfile.TemporaryDirectory(prefix="torchstone-ab-") as made:
        tree = Path(made) / "tree"
        _git(here, "worktree", "add", "--detach", "--quiet", str(tree), revision.commit)
        try:
            if not (tree / inside).is_dir():
                raise UsageError(f"{revision.label} has no folder {inside}: start in a folder that both revisions have")
            yield tree / inside
        finally:
            _git(here, "worktree", "remove", "--force", str(tree))


def _git(here: Path, *words: str) -> str:
    """Return what git says. No hook of the repository runs: it may be a stranger's."""
    try:
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", *words],
            cwd=here,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise MissingError("comparing revisions needs git, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise TorchstoneError(f"git {words[0]} did not end within {_PATIENCE_S:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it failed"]
        # Advice may follow, over several lines, on what to type.
        said = next((line for line in lines if line.startswith("fatal: ")), lines[-1]).removeprefix("fatal: ")
        raise UsageError(f"git {words[0]}: {said}")
    return done.stdout


class SideRequest(msgspec.Struct, frozen=True):
    """One side as asked for: its label, its request with one workload, and the folder of its revision.

    `program`: a command with one value for each axis, in place of the workload.
    """

    label: str
    request: RunRequest
    folder: Path | None = None
    revision: str | None = None
    program: ProgramRequest | None = None


class Sketched(msgspec.Struct, frozen=True):
    """A side that was checked: all but its device is known."""

    label: str
    sketch: plan.Sketch
    folder: Path | None


def with_settings(request: RunRequest, own: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> RunRequest:
    """Return a request with the settings of one side. What only the other side names gets its default said aloud.

    Raises UsageError where the request has several workloads.
    """
    defaults = {name: AXES[name].default for name in other if name not in own}
    workload = _only_workload(request)
    given = {name: value for name, value in defaults.items() if name not in workload.axes}
    axes = {**workload.axes, **{name: (value,) for name, value in {**given, **own}.items()}}
    return msgspec.structs.replace(request, workloads=(msgspec.structs.replace(workload, axes=axes),))


def sketched(side: SideRequest) -> Sketched:
    """Check a side without torch. Raises UsageError naming what there is, or which axis has several values."""
    if side.program is not None:
        return _of_program(side, side.program)
    workload = _only_workload(side.request)
    if workload.task == Task.LOADGEN:
        raise UsageError("ab compares steps, and task loadgen has none: compare runs of it with torchstone compare")
    model = _in_folder(workload.model, side.folder) if side.folder is not None else workload.model
    found = plan.sketch(msgspec.structs.replace(workload.excluding(side.request.exclude), model=model))
    if len(found.configurations) > 1:
        axis = next(name for name, values in workload.axes.items() if len(values) > 1)
        one, other, *_ = workload.axes[axis]
        raise UsageError(
            f"ab compares one case with one, but axis {axis} has {len(workload.axes[axis])} values: give one, or one "
            f"to each side: --a {axis}={one} --b {axis}={other}"
        )
    if side.folder is not None:
        found = msgspec.structs.replace(found, workload=_with_data_from_here(found))
        if model == workload.model and side.folder != Path.cwd():
            # A module is looked for from where we work: its digest is that of the file here, and not of the revision.
            found = msgspec.structs.replace(found, code_sha256=None)
    if side.revision is not None:
        fixed = {**found.workload.fixed, "revision": side.revision}
        found = msgspec.structs.replace(found, workload=msgspec.structs.replace(found.workload, fixed=fixed))
    return Sketched(side.label, found, side.folder)


def _of_program(side: SideRequest, program: ProgramRequest) -> Sketched:
    check(program)
    if several := [name for name, values in program.axes.items() if len(values) > 1]:
        raise UsageError(f"--axis {several[0]}: ab compares one value with one: --a {several[0]}=… --b {several[0]}=…")
    workload = workload_of(program)
    if side.revision is not None:
        workload = msgspec.structs.replace(workload, fixed={**workload.fixed, "revision": side.revision})
    return Sketched(side.label, plan.Sketch(workload, tuple(configurations(program)), own=True), side.folder)


def case_of(side: Sketched, device: str, inspected: Inspected, machine: Machine) -> Case:
    """Return the Case of a side on a device. Raises UsageError where there is no such device."""
    placement = plan.place(device, inspected, machine)
    info = machine.device(placement.device, placement.index)
    return Case(side.sketch.workload, plan.on_device(side.sketch.configurations[0], info), placement)


def _only_workload(request: RunRequest) -> WorkloadRequest:
    if len(request.workloads) == 1:
        return request.workloads[0]
    tasks = sorted({w.task for w in request.workloads})
    which = f"--task {tasks[0]}" if len(tasks) == len(request.workloads) else "a file with one workload"
    raise UsageError(
        f"ab compares one case with one, but {request.name or 'this'} has {len(request.workloads)} workloads: "
        f"name one, with {which}"
    )


def _with_data_from_here(found: plan.Sketch) -> Workload:
    """Return the workload with its data by their whole path: both sides read what lies here, and was looked at."""
    scheme, _, path = found.workload.data.partition(":")
    if found.data is None or found.data.sha256 is None or not path or not Path(path).exists():
        return found.workload
    return msgspec.structs.replace(found.workload, data=f"{scheme}:{Path(path).absolute()}")


def _in_folder(model: str, folder: Path) -> str:
    """Return a model of the user's own as that folder has it: a path in it; a module is found there by itself.

    Raises UsageError for an absolute path: it would be one and the same file on both sides.
    """
    scheme, _, name = model.partition(":")
    place, colon, function = name.rpartition(":")
    is_path = scheme == "py" and colon and (place.endswith(".py") or os.sep in place)
    if not is_path:
        return model
    if Path(place).is_absolute():
        raise UsageError(f"model {model}: both revisions would load this same file; give a relative path")
    return f"py:{folder / place}:{function}"

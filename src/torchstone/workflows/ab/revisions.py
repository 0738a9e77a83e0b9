"""Revisions of the user's code: each in a work tree of its own, which is removed again."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError

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
            cwd=here, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
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

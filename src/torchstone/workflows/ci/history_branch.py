"""The history on a branch of its own: one immutable file a commit, added without touching the work tree.

A file that grows would be stored again with every commit; a file a commit is stored once.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.ci import HistoryEntry

USUAL_BRANCH = "torchstone-history"
_ATTEMPTS = 5
_PATIENCE_S = 120.0
_AUTHOR = {
    "GIT_AUTHOR_NAME": "torchstone",
    "GIT_AUTHOR_EMAIL": "torchstone@localhost",
    "GIT_COMMITTER_NAME": "torchstone",
    "GIT_COMMITTER_EMAIL": "torchstone@localhost",
}
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", re.ASCII)
_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def add(entry: HistoryEntry, here: Path, branch: str = USUAL_BRANCH, remote: str | None = None) -> bool:
    """Add the entry to the branch, which is made if it is not there; return whether it was new.

    `remote`: it is fetched first and pushed to; where another job was faster, again. Raises UsageError for names that
    are none, and TorchstoneError where git refuses.
    """
    if not _BRANCH.fullmatch(branch) or ".." in branch or branch.endswith(("/", ".lock")):
        raise UsageError(f"--branch {branch[:80]!r} is not the name of a branch")
    if remote is not None and not _REMOTE.fullmatch(remote):
        raise UsageError(f"--push {remote[:80]!r} is not the name of a remote, such as origin")
    data = msgspec.json.format(msgspec.json.encode(entry), indent=1) + b"\n"
    path, ref = f"commits/{entry.commit}.json", f"refs/heads/{branch}"
    for _ in range(_ATTEMPTS if remote is not None else 1):
        before = _fetched(here, remote, branch) if remote is not None else _tip(here, ref)
        if before is not None and _git(here, "ls-tree", "--name-only", before, "--", path).strip():
            return False
        made = _committed(here, before, path, data, entry.commit)
        if remote is None:
            _git(here, "update-ref", ref, made, before or "0" * len(made))
            return True
        if _pushed(here, remote, made, ref, before):
            return True
    raise TorchstoneError(f"{remote}: {branch} changed {_ATTEMPTS} times while an entry was added; run this again")


def _committed(here: Path, before: str | None, path: str, data: bytes, commit: str) -> str:
    """Return a commit after `before` with one file more; the index and the work tree stay as they are."""
    blob = _git(here, "hash-object", "-w", "--stdin", data=data).strip()
    with tempfile.TemporaryDirectory(prefix="torchstone-history-") as folder:
        own = {**_AUTHOR, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        if before is not None:
            _git(here, "read-tree", before, more=own)
        _git(here, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", more=own)
        tree = _git(here, "write-tree", more=own).strip()
        parents = ("-p", before) if before is not None else ()
        return _git(here, "commit-tree", tree, *parents, "-m", f"{commit[:9]} measured", more=own).strip()


def _fetched(here: Path, remote: str, branch: str) -> str | None:
    """Return the tip of the remote's branch, after fetching it; None where there is no such branch."""
    listed = _git(here, "ls-remote", "--heads", remote, f"refs/heads/{branch}").split()
    if not listed:
        return None
    _git(here, "fetch", "--quiet", "--no-tags", remote, f"refs/heads/{branch}")
    return _git(here, "rev-parse", "FETCH_HEAD").strip()


def _tip(here: Path, ref: str) -> str | None:
    try:
        return _git(here, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").strip()
    except TorchstoneError:
        return None


def _pushed(here: Path, remote: str, made: str, ref: str, before: str | None) -> bool:
    """Push, if the branch is still as it was; say whether it was."""
    try:
        _git(here, "push", "--quiet", f"--force-with-lease={ref}:{before or ''}", remote, f"{made}:{ref}")
    except TorchstoneError as fault:
        if re.search(r"stale info|rejected|cannot lock|fetch first|non-fast-forward", str(fault)):
            return False
        raise
    return True


def _git(here: Path, *words: str, data: bytes | None = None, more: dict[str, str] | None = None) -> str:
    """Return what git says. No hook of the repository runs, and no password is asked for."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(more or {})}
    try:
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", *words],
            cwd=here,
            env=environment,
            input=data or b"",
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise MissingError("the history needs git, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise TorchstoneError(f"git {words[0]} did not end within {_PATIENCE_S:.0f} s") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[-500:]
        raise TorchstoneError(f"git {words[0]}: {_without_password(said) or 'it failed'}")
    return done.stdout.decode(errors="replace")


def _without_password(text: str) -> str:
    """Return text without what stands before the @ of an address."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)

"""The history branch in real repositories: nothing is changed that is there, and the work tree is not touched."""

import json
import subprocess

import msgspec
import pytest

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.ci import HistoryEntry, HistoryPoint
from torchstone.storage.ci_folder import read_history
from torchstone.workflows.ci import history_branch
from torchstone.workflows.ci.history_branch import add

BRANCH = "torchstone-history"


def git(folder, *words):
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def an_entry(letter: str, ratio: float = 1.01) -> HistoryEntry:
    return HistoryEntry(1, letter * 40, "0" * 40, "2026-11-21T10:00:00", 0.02, (HistoryPoint("a", "slower", ratio),))


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "code.py").write_text("x = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    hook = folder / ".git" / "hooks" / "reference-transaction"
    hook.write_text("#!/bin/sh\ntouch HOOKED\n")
    hook.chmod(0o755)
    return folder


def test_an_entry_is_one_file_more_and_the_work_tree_stays(repository):
    (repository / "code.py").write_text("x = 2\n")
    before = git(repository, "status", "--porcelain")
    assert add(an_entry("a"), repository)
    assert add(an_entry("b"), repository)
    assert git(repository, "ls-tree", "-r", "--name-only", BRANCH).split() == [
        f"commits/{letter * 40}.json" for letter in "ab"
    ]
    assert len(git(repository, "rev-list", BRANCH).split()) == 2, "its own commits, and not those of the code"
    assert git(repository, "status", "--porcelain") == before
    assert git(repository, "branch", "--show-current").strip() == "main"
    shown = git(repository, "show", f"{BRANCH}:commits/{'a' * 40}.json")
    assert msgspec.json.decode(shown, type=HistoryEntry) == an_entry("a")
    assert not list(repository.rglob("HOOKED")), "no hook of the repository runs"


def test_an_entry_that_is_there_stays_as_it_is(repository):
    assert add(an_entry("a", 1.01), repository)
    tip = git(repository, "rev-parse", BRANCH)
    assert not add(an_entry("a", 2.0), repository)
    assert git(repository, "rev-parse", BRANCH) == tip
    assert json.loads(git(repository, "show", f"{BRANCH}:commits/{'a' * 40}.json"))["points"][0]["ratio"] == 1.01


@pytest.fixture
def remote(repository, tmp_path):
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(repository, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(repository, "push", "-q", "origin", "main")
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), "there")
    return tmp_path / "there"


def test_two_jobs_add_to_one_remote_branch(repository, remote, tmp_path):
    assert add(an_entry("a"), repository, remote="origin")
    assert add(an_entry("b"), remote, remote="origin")
    assert not add(an_entry("a"), remote, remote="origin")
    assert add(an_entry("c"), repository, remote="origin")
    git(tmp_path / "remote.git", "worktree", "add", "-q", str(tmp_path / "page"), BRANCH)
    assert [one.commit[0] for one in read_history(tmp_path / "page")] == ["a", "b", "c"]


def test_a_job_that_was_slower_adds_its_entry_after_the_other_s(repository, remote, monkeypatch):
    add(an_entry("a"), repository, remote="origin")
    whole, late = history_branch._fetched, [True]

    def meanwhile(here, name, branch):
        found = whole(here, name, branch)
        if late.pop() if late else False:
            monkeypatch.setattr(history_branch, "_fetched", whole)
            assert add(an_entry("b"), remote, remote="origin")
        return found

    monkeypatch.setattr(history_branch, "_fetched", meanwhile)
    assert add(an_entry("c"), repository, remote="origin")
    listed = git(repository, "ls-tree", "-r", "--name-only", "FETCH_HEAD").split()
    assert [name[8] for name in listed] == ["a", "b"], "what was fetched before the last push"
    assert not add(an_entry("c"), remote, remote="origin")


def test_what_git_refuses_is_one_line_without_a_password(repository):
    git(repository, "remote", "add", "far", "https://user:secret@127.0.0.1:1/x.git")
    with pytest.raises(TorchstoneError) as fault:
        add(an_entry("a"), repository, remote="far")
    assert "secret" not in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("branch", ["", "-x", "a..b", "a b", "x.lock", "a/"])
def test_a_branch_that_is_no_name_is_refused(repository, branch):
    with pytest.raises(UsageError, match="--branch"):
        add(an_entry("a"), repository, branch)
    with pytest.raises(UsageError, match="--push"):
        add(an_entry("a"), repository, remote="--upload-pack=x")

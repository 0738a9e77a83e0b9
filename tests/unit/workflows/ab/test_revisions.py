"""Revisions of a real repository, each in a work tree that is gone afterwards."""

import subprocess
from datetime import datetime, timedelta

import pytest

from torchstone.core.errors import UsageError
from torchstone.workflows.ab.sides import checked_out, committed_utc, find, is_shallow, merge_base


def git(folder, *words):
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q", "-b", "main")
    (folder / "code").mkdir()
    for text in ("one", "two"):
        (folder / "code" / "net.py").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", text)
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch HOOKED\n")
    hook.chmod(0o755)
    return folder


def test_a_revision_is_checked_out_beside_and_removed_again(repository):
    revision = find("HEAD~1", repository)
    assert revision.label.startswith("HEAD~1 (")
    with checked_out(revision, repository / "code") as folder:
        assert (folder / "net.py").read_text() == "one"
        assert not (folder.parent / "HOOKED").exists(), "no hook of the repository runs"
    assert not folder.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "code" / "net.py").read_text() == "two"


def test_the_work_tree_is_taken_as_it_is_and_says_what_changed(repository):
    (repository / "code" / "net.py").write_text("three")
    try:
        revision = find(".", repository)
        assert revision.label == "work tree (1 changed file)"
        with checked_out(revision, repository) as folder:
            assert folder == repository
    finally:
        git(repository, "checkout", "-q", "code/net.py")
    assert find(".", repository).label == "work tree (no change)"


def test_what_is_no_revision_is_said_in_one_line(repository, tmp_path):
    with pytest.raises(UsageError, match="'nowhere' is neither a recipe, a file, nor a revision"):
        find("nowhere", repository)
    with pytest.raises(UsageError, match="is not a revision"):
        find("--upload-pack=x", repository)
    with pytest.raises(UsageError, match="not a git repository"):
        find("HEAD", tmp_path)


def test_a_repository_without_a_commit_and_a_shallow_clone_are_told_apart_from_a_typing_mistake(repository, tmp_path):
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    with pytest.raises(UsageError, match="'HEAD': this repository has no commit yet: git add and git commit first"):
        find("HEAD", tmp_path / "empty")
    git(tmp_path, "clone", "-q", "--depth", "1", repository.as_uri(), "shallow")
    assert is_shallow(tmp_path / "shallow")
    with pytest.raises(UsageError, match="'HEAD~1' is not in this clone, which is shallow: git fetch --unshallow"):
        find("HEAD~1", tmp_path / "shallow")


def test_a_folder_that_one_revision_lacks(repository):
    (repository / "new").mkdir()
    try:
        with (
            pytest.raises(UsageError, match="has no folder new"),
            checked_out(find("HEAD", repository), repository / "new"),
        ):
            pass
    finally:
        (repository / "new").rmdir()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_the_merge_base_and_the_time_of_a_commit(repository):
    older, newer = (git(repository, "rev-parse", word).strip() for word in ("HEAD~1", "HEAD"))
    assert merge_base(older, newer, repository) == older
    git(repository, "config", "log.showSignature", "true")  # which prints more before what is asked for
    when = datetime.fromisoformat(committed_utc(newer, repository))
    assert when.utcoffset() == timedelta(0)
    assert abs(when.timestamp() - (repository / "code" / "net.py").stat().st_mtime) < 3600.0


def test_histories_without_a_common_commit_have_no_merge_base(repository):
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    alone = git(repository, "commit-tree", tree, "-m", "alone").strip()
    with pytest.raises(UsageError, match="no commit in common here: fetch the whole history"):
        merge_base(alone, git(repository, "rev-parse", "HEAD").strip(), repository)

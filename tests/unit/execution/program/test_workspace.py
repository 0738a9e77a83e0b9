"""The folder in which a program runs: it looks like the user's own, and what is written there stays there."""

import pytest

from torchstone.core.errors import UsageError
from torchstone.execution.program import workspace


def test_what_is_written_beside_the_users_files_is_not_in_their_folder(tmp_path):
    own = tmp_path / "own"
    (own / "src").mkdir(parents=True)
    (own / "src" / "train.py").write_text("print(1)")
    (own / "data.bin").write_bytes(bytes(2 << 20))
    (own / "outputs").mkdir()
    (own / "link").symlink_to("data.bin")
    there = workspace.mirrored(own, tmp_path / "there")
    assert (there / "src" / "train.py").read_text() == "print(1)"
    (there / "src" / "train.py").write_text("changed")
    (there / "src" / "new").touch()
    assert (own / "src" / "train.py").read_text() == "print(1)"
    assert not (own / "src" / "new").exists()
    assert (there / "data.bin").resolve() == own / "data.bin", "what is large is linked"
    assert (there / "link").read_bytes() == (own / "data.bin").read_bytes()
    assert not (there / "outputs").exists()


def test_what_is_beside_and_above_the_folder_is_found_from_there(tmp_path):
    own = tmp_path / "project" / "examples" / "mnist"
    own.mkdir(parents=True)
    (own / "main.py").write_text("print(1)")
    for name in ("project/data", "project/examples/common"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    there = workspace.mirrored(own, tmp_path / "place")
    assert (there / "main.py").is_file()
    assert not (there / "main.py").is_symlink()
    assert (there / ".." / "common" / "file").read_text() == "project/examples/common"
    assert (there / ".." / ".." / "data" / "file").read_text() == "project/data"
    (there / ".." / "new").touch()
    assert not (tmp_path / "project" / "examples" / "new").exists()


def test_too_many_files_say_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "_MOST_FILES", 3)
    for number in range(6):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(UsageError, match="--in-place"):
        workspace.mirrored(tmp_path, tmp_path.parent / "there")

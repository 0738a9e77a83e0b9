import hashlib
from pathlib import Path

import pytest

from torchstone.core.errors import UsageError
from torchstone.plugins.data import _named_files


def made(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    return str(folder)


def found(path: str) -> dict[str | None, list[str]]:
    return {split: [f.name for f in files] for split, files in _named_files.files_of("csv", path, (".csv",)).items()}


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("test.csv", "dev.csv", "train.csv", "notes.csv"), {
            "train": ["train.csv"], "validation": ["dev.csv"], "test": ["test.csv"],
        }),
        (("Training.CSV", "valid.csv"), {"train": ["Training.CSV"], "validation": ["valid.csv"]}),
        (("train-00001-of-00002.csv", "train-00000-of-00002-0123456789abcdef.csv"), {
            "train": ["train-00000-of-00002-0123456789abcdef.csv", "train-00001-of-00002.csv"],
        }),
        (("b.csv", "a.csv", ".hidden.csv", "readme.md"), {None: ["a.csv", "b.csv"]}),
        (("train_small.csv", "latest.csv"), {None: ["latest.csv", "train_small.csv"]}),
    ],
)  # fmt: skip
def test_splits_by_name(tmp_path: Path, names: tuple[str, ...], splits: dict[str | None, list[str]]) -> None:
    assert found(made(tmp_path, *names)) == splits


def test_a_file_is_one_piece(tmp_path: Path) -> None:
    made(tmp_path, "train.txt")
    assert found(str(tmp_path / "train.txt")) == {None: ["train.txt"]}


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("dev.csv", "val.csv"), r"has both dev.csv and val.csv"),
        (("train-0-of-3.csv", "train-1-of-3.csv"), "has 2 of the 3 files of train"),
        (("readme.md",), r"a folder without \.csv files$"),
        (("readme.md", "data/train.csv"), r"a folder without \.csv files, but data in it has: name .*/data"),
    ],
)
def test_folders_that_cannot_be_meant(tmp_path: Path, names: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        found(made(tmp_path, *names))


def test_a_digest_of_all_or_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_bytes(bytes(range(256)) * 16)
    assert _named_files.files_digest([file]) == hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setattr(_named_files, "_BLOCK_BYTES", 16)
    monkeypatch.setattr(_named_files, "_BLOCKS", 4)
    before = _named_files.files_digest([file])
    assert before != hashlib.sha256(file.read_bytes()).hexdigest()
    for place in (0, 1024, 4095):  # the first block, a later one, the last byte
        changed = bytearray(bytes(range(256)) * 16)
        changed[place] ^= 1
        file.write_bytes(changed)
        assert _named_files.files_digest([file]) != before, place

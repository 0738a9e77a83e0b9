"""SHA256SUMS as `sha256sum` writes and reads it, whatever files are called."""

import shutil
import subprocess
from pathlib import Path

import pytest

from torchstone.core.errors import UsageError
from torchstone.storage import manifest
from torchstone.storage.manifest import (
    MANIFEST,
    check_folder,
    disagreements,
    files_below,
    manifest_bytes,
    read_manifest,
    sums_of,
    write_manifest,
)

STRANGE = ("a b.txt", "back\\slash", "new\nline", "re\rturn", "ü–模型", "-n", "*", "' \"", "sub/deeper/x.bin")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder of files with strange names."""
    top = tmp_path / "results"
    for name in STRANGE:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return top


def sha256sum(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum here")
    return subprocess.run(["sha256sum", *words], cwd=folder, capture_output=True, timeout=60, check=False)


def test_sha256sum_checks_what_is_written(folder):
    path, count = write_manifest(folder)
    assert (path, count) == (folder / MANIFEST, len(STRANGE))
    checked = sha256sum(folder, "--strict", "-c", MANIFEST)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count(b": OK\n") == len(STRANGE)
    (folder / "a b.txt").write_bytes(b"a b.txu")  # one bit
    assert sha256sum(folder, "-c", MANIFEST).returncode == 1


def test_what_sha256sum_writes_is_read(folder):
    names = [name for name in STRANGE if name != "-n"]
    written = sha256sum(folder, "--", *names).stdout
    assert read_manifest(written) == {name: sums_of({name: name.encode()})[name] for name in names}
    binary = sha256sum(folder, "-b", "--", "a b.txt").stdout
    assert b" *a b.txt" in binary
    assert list(read_manifest(binary)) == ["a b.txt"]


def test_it_is_ordered_by_name_and_reads_back(folder):
    sums = sums_of({name: name.encode() for name in STRANGE})
    data = manifest_bytes(sums)
    assert read_manifest(data) == sums
    assert list(read_manifest(data)) == sorted(STRANGE)
    assert manifest_bytes(dict(reversed(sums.items()))) == data


def test_a_name_that_is_not_utf8_survives(tmp_path):
    name = b"\xff\xfe.bin".decode("utf-8", "surrogateescape")
    (tmp_path / name).write_bytes(b"x")
    write_manifest(tmp_path)
    assert check_folder(tmp_path) == ([], 1)


def test_each_fault_is_named(folder):
    write_manifest(folder)
    assert check_folder(folder) == ([], len(STRANGE))
    flipped = bytearray((folder / "sub/deeper/x.bin").read_bytes())
    flipped[0] ^= 1
    (folder / "sub/deeper/x.bin").write_bytes(flipped)
    (folder / "*").unlink()
    (folder / "more").write_bytes(b"")
    faults, _ = check_folder(folder)
    assert faults == [
        f"'*' is listed in {MANIFEST} and missing",
        f"'sub/deeper/x.bin' has changed: its SHA-256 is not the one in {MANIFEST}",
        f"'more' is not listed in {MANIFEST}",
    ]


def test_a_name_that_leads_out_is_never_opened(folder, tmp_path):
    (tmp_path / "outside").write_bytes(b"secret")
    stated = sums_of({"../outside": b"secret"})
    (folder / MANIFEST).write_bytes(manifest_bytes(stated))
    faults, _ = check_folder(folder)
    assert f"'../outside' is listed in {MANIFEST} and missing" in faults


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"hello\n", f"{MANIFEST}:1: not a line of sha256sum"),
        (b"0" * 64 + b" one space\n", f"{MANIFEST}:1: not a line"),
        (b"0" * 64 + b"  a\n" + b"1" * 64 + b"  a\n", f"{MANIFEST}:2: 'a' is listed twice"),
    ],
)
def test_a_manifest_that_is_none(data, said):
    with pytest.raises(UsageError, match=said):
        read_manifest(data)


def test_links_are_refused(folder, tmp_path):
    (tmp_path / "secret").write_bytes(b"s")
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="link is a symbolic link: only plain files can be listed"):
        write_manifest(folder)
    (folder / "link").unlink()
    (folder / "inside").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(UsageError, match="inside is a symbolic link"):
        list(files_below(folder))


def test_where_there_is_nothing(tmp_path, folder, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty has no files"):
        write_manifest(tmp_path / "empty")
    with pytest.raises(UsageError, match=rf"has no {MANIFEST}; `torchstone manifest"):
        check_folder(folder)
    with pytest.raises(UsageError, match="is not a folder"):
        write_manifest(tmp_path / "nowhere")
    monkeypatch.setattr(manifest, "MOST_FILES", 3)
    with pytest.raises(UsageError, match="more than 3 files"):
        write_manifest(folder)


def test_an_older_manifest_is_replaced(folder):
    write_manifest(folder)
    (folder / "more").write_bytes(b"more")
    assert write_manifest(folder)[1] == len(STRANGE) + 1
    assert check_folder(folder)[0] == []
    assert not [name for name, _ in files_below(folder) if "writing" in name]


def test_nothing_is_said_of_what_agrees():
    assert list(disagreements({"a": "1"}, {"a": "1"})) == []


def test_the_index_of_an_output_folder_is_left_out(folder):
    for name in ("torchstone.sqlite", "torchstone.sqlite-wal", "sub/torchstone.sqlite"):
        (folder / name).write_bytes(b"1")
    assert write_manifest(folder)[1] == len(STRANGE) + 1
    (folder / "torchstone.sqlite").write_bytes(b"2")
    assert check_folder(folder)[0] == []
    (folder / "sub/torchstone.sqlite").write_bytes(b"2")
    assert len(check_folder(folder)[0]) == 1

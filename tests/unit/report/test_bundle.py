"""Bundles that strangers made: nothing leads out of them, and what is read is bounded."""

import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from reported import a_swept_run, files_of, reported, stored_summary

from torchstone.core.errors import UsageError
from torchstone.report import bundle as module
from torchstone.report.bundle import read_bundle, runs_of, sum_faults
from torchstone.storage.manifest import MANIFEST, manifest_bytes, sums_of

FILES = {"records/a.jsonl": b"{}", "README.md": b"# a"}


def zipped(path: Path, files: dict[str, bytes], **about: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in about.items():
                setattr(info, key, value)
            packed.writestr(info, content)
    return path


def unpacked(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_a_folder_and_its_zip_are_the_same(tmp_path):
    files = {**FILES, MANIFEST: manifest_bytes(sums_of(FILES))}
    folder = read_bundle(unpacked(tmp_path / "folder", files))
    flat = read_bundle(zipped(tmp_path / "flat.zip", files))
    nested = read_bundle(zipped(tmp_path / "nested.zip", {f"results/{name}": data for name, data in files.items()}))
    assert dict(folder.files) == dict(flat.files) == dict(nested.files) == files
    assert folder.records == ["records/a.jsonl"]
    assert list(sum_faults(folder)) == []


def test_a_zip_of_records_alone_keeps_their_folder(tmp_path):
    assert read_bundle(zipped(tmp_path / "a.zip", {"records/a.jsonl": b"{}"})).records == ["records/a.jsonl"]


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../out", "C:/x", "a\\..\\b"])
def test_a_name_that_leads_out(tmp_path, name):
    with pytest.raises(UsageError, match="leads out of the bundle"):
        read_bundle(zipped(tmp_path / "a.zip", {name: b""}))


def test_a_link_in_a_zip(tmp_path):
    path = zipped(tmp_path / "a.zip", {"link": b"/etc/passwd"}, external_attr=(stat.S_IFLNK | 0o777) << 16)
    with pytest.raises(UsageError, match="'link' is a symbolic link"):
        read_bundle(path)


def test_a_link_in_a_folder(tmp_path):
    folder = unpacked(tmp_path / "folder", FILES)
    (folder / MANIFEST).symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="is a symbolic link"):
        read_bundle(folder)


def test_a_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    path = zipped(tmp_path / "a.zip", {"zeros": bytes(1_000_000)})
    assert path.stat().st_size < 5000
    with pytest.raises(UsageError, match="more than 10000 bytes in all"):
        read_bundle(path)
    with pytest.raises(UsageError, match="more than 10000 bytes in all"):
        read_bundle(unpacked(tmp_path / "folder", {"a": bytes(6000), "b": bytes(6000)}))


def test_a_bomb_is_not_unpacked_beyond_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    read: list[int] = []
    member = module._member

    def counted(packed, info, most):
        content = member(packed, info, most)
        read.append(len(content))
        return content

    monkeypatch.setattr(module, "_member", counted)
    with pytest.raises(UsageError):
        read_bundle(zipped(tmp_path / "a.zip", {"zeros": bytes(50_000_000)}))
    assert read == [10_001]


def test_a_bomb_costs_no_more_memory_than_it_may_unpack_to(tmp_path):
    """A zip of 1.1 MB took 2.1 GB: parts, and beside them what they were joined to."""
    path = zipped(tmp_path / "a.zip", {"zeros": bytes(200 * 2**20)})
    assert path.stat().st_size < 2**18
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="more than 67108864 bytes in all"):
            read_bundle(path)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 3)
    with pytest.raises(UsageError, match="more than 3 files"):
        read_bundle(zipped(tmp_path / "a.zip", {str(n): b"" for n in range(4)}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a/b", b"1")
        packed.writestr("a/./b", b"2")
    with pytest.raises(UsageError, match="'a/b' is in it twice"):
        read_bundle(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 and no more", "not a zip file that can be read"),
        (b'{"record":"head"}', "is no report: give report.html"),
        (b"<p>a page</p>", "carries no record: only HTML reports and releases do"),
        (b"", "carries no record"),
    ],
)
def test_what_is_no_bundle(tmp_path, content, said):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_bundle(path)


def test_what_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read_bundle(tmp_path / "nowhere.zip")


def test_its_runs_are_read_where_every_file_is_as_it_was(outputs, tmp_path):
    files = files_of(reported(stored_summary(outputs, a_swept_run())))
    (run,) = runs_of(read_bundle(unpacked(tmp_path / "whole", files)))
    assert run.head.run_id == "20261121-100000-abcd"
    (name,) = [name for name in files if name.startswith("records/")]
    broken = read_bundle(unpacked(tmp_path / "broken", {**files, name: files[name] + b"\n"}))
    with pytest.raises(UsageError, match=r"has changed: .*; `torchstone verify .*` says what else is wrong"):
        runs_of(broken)

"""Peaks that are kept: of this machine, this torch, newest first; a broken file is none."""

import pathlib

import msgspec
import pytest
from build import a_machine, peaks_of

from torchstone.core.errors import MissingError
from torchstone.core.schema.machine import DeviceInfo
from torchstone.storage import stored_peaks as cache

CPU = DeviceInfo("cpu", "cpu", "AMD", 0, "a processor")
MACHINE = a_machine(devices=(CPU,))


def test_what_is_kept_is_there_again_and_newer_replaces_older(tmp_path):
    cache.keep_peaks(peaks_of(), tmp_path / "peaks")
    newer = peaks_of(measured_utc="2026-11-23T00:00:00+00:00", matmul_fp32=3e11)
    cache.keep_peaks(newer, tmp_path / "peaks")
    assert cache.kept(MACHINE, tmp_path / "peaks") == (newer,)
    assert len(list((tmp_path / "peaks").iterdir())) == 1
    assert cache.with_kept(MACHINE, tmp_path / "peaks").best("cpu", 0) == newer


def test_other_threads_stand_beside_and_the_newest_is_first(tmp_path):
    one = peaks_of(threads=1, measured_utc="2026-11-23T00:00:00+00:00")
    for peaks in (peaks_of(), one):
        cache.keep_peaks(peaks, tmp_path)
    machine = cache.with_kept(MACHINE, tmp_path)
    assert machine.best("cpu", 0) == one
    assert machine.best("cpu", 0, threads=2) == peaks_of()
    assert machine.best("cpu", 0, threads=3) is None
    assert machine.best("cuda", 0) is None


@pytest.mark.parametrize(
    "other",
    [
        {"torch": "1.0"}, {"hostname": "other"}, {"processor": "other"}, {"device_name": "other"}, {"uuid": "GPU-1"},
        {"index": 1},
    ],
)  # fmt: skip
def test_what_belongs_to_another_machine_is_not_taken(tmp_path, other):
    cache.keep_peaks(peaks_of(**other), tmp_path)
    assert cache.kept(MACHINE, tmp_path) == ()


def test_broken_files_are_not_there(tmp_path):
    cache.keep_peaks(peaks_of(), tmp_path)
    (tmp_path / "a.json").write_bytes(b'{"hostname": 1')
    (tmp_path / "b.json").write_bytes(b"\xff\x00")
    (tmp_path / "c.json").mkdir()
    assert cache.kept(MACHINE, tmp_path) == (peaks_of(),)
    assert cache.kept(MACHINE, tmp_path / "nowhere") == ()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match="TORCHSTONE_CACHE"):
        cache.keep_peaks(peaks_of(), tmp_path / "file")


def test_where_they_lie():
    home = pathlib.Path.home()
    assert cache.folder({"TORCHSTONE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == pathlib.Path("/a/peaks")
    assert cache.folder({"XDG_CACHE_HOME": "/b"}) == pathlib.Path("/b/torchstone/peaks")
    assert cache.folder({"XDG_CACHE_HOME": "not/absolute"}) == home / ".cache/torchstone/peaks"
    assert cache.folder({}) == home / ".cache/torchstone/peaks"


def test_a_record_of_before_has_no_peaks():
    old = msgspec.json.decode(msgspec.json.encode(MACHINE))
    del old["peaks"]
    assert msgspec.convert(old, type=type(MACHINE)) == MACHINE

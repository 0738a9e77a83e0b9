"""Files as gzip: the same bytes whether alone or among many, and none where they become too large."""

import gzip
import os

from torchstone.report.attached import Packing, packed

TEXT = b"0.1234 " * 3_000_000  # several pieces


def test_what_was_packed_is_there_again_and_always_the_same_bytes():
    assert gzip.decompress(packed(TEXT)) == TEXT
    assert packed(TEXT) == packed(TEXT)
    assert gzip.decompress(packed(b"")) == b""


def test_many_files_are_packed_as_each_of_them():
    files = {"a": TEXT, "b": b"", "c": b"x"}
    assert Packing(files, 2**20).packed() == {name: packed(content) for name, content in files.items()}


def test_files_that_become_larger_than_is_allowed_are_none():
    noise = os.urandom(5000)
    assert Packing({"a": noise}, 4000).packed() is None
    assert Packing({"a": noise[:2000], "b": noise[2000:]}, 4000).packed() is None, "together"
    assert Packing({"a": noise}, 6000).packed() is not None

"""A stranger's output folder with links in it: no command follows one to write, nor touches another program's data."""

import shutil
import sqlite3

import pytest
from build import a_run

from torchstone.cli import main
from torchstone.core.schema.codec import encode

RUN_ID = "20261121-100000-abcd"


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """An output folder as somebody packed it, and a file outside it."""
    monkeypatch.delenv("TORCHSTONE_STORE", raising=False)
    run = a_run()
    folder = tmp_path / "packed"
    (folder / "records").mkdir(parents=True)
    path = folder / "records" / f"{RUN_ID}.jsonl"
    path.write_bytes(b"".join(encode(line) + b"\n" for line in (run.head, *run.trials, run.end)))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    return folder


def others(packed):
    """What lies outside the folder, by name and content."""
    return {path.name: path.read_bytes() for path in packed.parent.iterdir() if path.is_file()}


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("target", ["victim", "other.db", "made-up"])
def test_the_index_is_not_a_link(packed, capfd, suffix, target):
    with sqlite3.connect(packed.parent / "other.db") as other:
        other.execute("CREATE TABLE runs (name TEXT)")
        other.execute("INSERT INTO runs VALUES ('theirs')")
    other.close()
    (packed / f"torchstone.sqlite{suffix}").symlink_to(packed.parent / target)
    before = others(packed)
    for words in (["runs"], ["runs", "--rebuild"], ["show", RUN_ID], ["history"], ["recommend"]):
        assert main([*words, "--output-dir", str(packed)]) == 0, words
    assert RUN_ID in capfd.readouterr().out
    assert others(packed) == before


def test_another_programs_database_stays_as_it_is(packed, capfd):
    path = packed / "torchstone.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (name TEXT)")
        other.execute("INSERT INTO runs VALUES ('theirs')")
    other.close()
    before = path.read_bytes()
    assert main(["runs", "--output-dir", str(packed)]) == 2
    assert "is a database of another program" in capfd.readouterr().err
    assert path.read_bytes() == before


def test_another_users_folder_that_is_looked_at_gets_no_index(packed, capfd, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: packed.stat().st_uid + 1)
    assert main(["runs", "--output-dir", str(packed)]) == 0
    assert RUN_ID in capfd.readouterr().out
    assert [path.name for path in packed.iterdir()] == ["records"]


WRITING = {
    f"reports/{RUN_ID}.md": ["report", RUN_ID],
    f"reports/{RUN_ID}.html": ["report", RUN_ID, "--format", "html"],
    f"data/{RUN_ID}_cases.csv": ["export", RUN_ID],
    "analysis/recommendation.json": ["recommend", "--save"],
    "analysis/history.json": ["history", "--save"],
    "absolute_results.jsonl": ["history", "--reference"],
}


@pytest.mark.parametrize("name", WRITING)
def test_a_link_where_a_file_goes_is_replaced(packed, name):
    path = packed / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(packed.parent / "victim")
    before = others(packed)
    assert main([*WRITING[name], "--output-dir", str(packed)]) == 0
    assert others(packed) == before
    assert path.is_file()
    assert not path.is_symlink()


@pytest.mark.parametrize("name", [name for name in WRITING if "/" in name])
def test_a_folder_that_is_a_link_is_refused(packed, capfd, name):
    outside = packed.parent / "outside"
    outside.mkdir()
    (packed / name).parent.symlink_to(outside)
    assert main([*WRITING[name], "--output-dir", str(packed)]) == 2
    assert "is a link, and nothing is written through one" in capfd.readouterr().err
    assert not list(outside.iterdir())


def test_records_are_not_taken_in_through_a_link(packed, capfd):
    outside = packed.parent / "outside"
    outside.mkdir()
    store = packed.parent / "store"
    store.mkdir()
    (store / "records").symlink_to(outside)
    assert main(["import", str(packed), "--output-dir", str(store)]) == 2
    assert "is a link" in capfd.readouterr().err
    assert not list(outside.iterdir())


def test_a_record_that_is_a_link_is_not_gone_on_with(packed, capfd):
    path = packed / "records" / f"{RUN_ID}.jsonl"
    outside = shutil.move(path, packed.parent / "outside.jsonl")
    path.symlink_to(outside)
    before = others(packed)
    assert main(["resume", str(path), "--output-dir", str(packed)]) == 2
    assert "it is a link" in capfd.readouterr().err
    assert others(packed) == before


def test_a_link_where_a_zip_is_made_is_not_followed(packed):
    victim = packed.parent / "victim"
    (packed / ".rz.zip.writing").symlink_to(victim)
    assert main(["release", RUN_ID, "--output", str(packed / "rz.zip"), "--output-dir", str(packed)]) == 0
    assert victim.read_text() == "precious"
    assert not (packed / "rz.zip").is_symlink()


def test_the_users_own_folder_may_be_a_link(packed):
    there = packed.parent / "there"
    there.symlink_to(packed)
    assert main(["report", RUN_ID, "--output-dir", str(there)]) == 0
    assert (packed / "reports" / f"{RUN_ID}.md").is_file()

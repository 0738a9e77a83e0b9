import math
import os
from pathlib import Path

import msgspec
import pytest
from build import a_run, a_trial

from torchstone.core.errors import UsageError
from torchstone.core.schema.run import End
from torchstone.storage.importing import import_path
from torchstone.storage.query import find, runs
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import RecordWriter
from torchstone.storage.run_document import write_document

RUN = a_run([a_trial(steady={"loss": [math.nan]}, items=16.0), a_trial(trial_id="t1", number=1, items=16.0)])
ID = RUN.head.run_id


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "elsewhere" / "a.jsonl"
    with RecordWriter(path, RUN.head) as writer:
        for trial in RUN.trials:
            writer.append(trial)
        writer.append(End("2026-11-21T10:01:00Z", "done"))
    return path


def test_the_same_run_twice_changes_nothing(tmp_path, record):
    folder = tmp_path / "out"
    assert import_path(record, folder) == [(ID, True)]
    stored = folder / "records" / f"{ID}.jsonl"
    assert stored.read_bytes() == record.read_bytes()
    before = stored.stat()
    assert import_path(record, folder) == [(ID, False)]
    assert import_path(write_document(RUN, tmp_path), folder) == [(ID, False)]
    assert (stored.stat().st_mtime_ns, stored.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert len(runs(folder)) == 1


def test_a_document_gives_the_same_record(tmp_path, record):
    assert import_path(write_document(RUN, tmp_path), tmp_path / "out") == [(ID, True)]
    assert (tmp_path / "out" / "records" / f"{ID}.jsonl").read_bytes() == record.read_bytes()


def test_a_longer_record_replaces_its_beginning_and_never_the_other_way(tmp_path, record):
    whole = record.read_bytes()
    record.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    folder = tmp_path / "out"
    assert import_path(record, folder) == [(ID, True)]
    assert len(find(folder, ID).trials) == 1
    record.write_bytes(whole)
    assert import_path(record, folder) == [(ID, True)]
    record.write_bytes(whole[:-100])
    assert import_path(record, folder) == [(ID, False)]
    assert len(find(folder, ID).trials) == 2


def test_another_run_of_the_same_id_is_refused(tmp_path, record):
    folder = tmp_path / "out"
    import_path(record, folder)
    other = msgspec.structs.replace(RUN, trials=(msgspec.structs.replace(RUN.trials[1], duration_s=1.0),))
    with pytest.raises(UsageError, match="other content"):
        import_path(write_document(other, tmp_path), folder)
    assert len(read_record(folder / "records" / f"{ID}.jsonl").trials) == 2


def test_a_folder_gives_what_is_sound_and_names_what_is_not(tmp_path, record):
    (record.parent / "notes.json").write_text("{}")
    assert import_path(tmp_path / "elsewhere", tmp_path / "out") == [(ID, True)]
    (record.parent / "b.jsonl").write_bytes(b"\x80\x04\x95pickle")
    (record.parent / "link.jsonl").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"b\.jsonl: not a torchstone record; the 1 valid"):
        import_path(tmp_path / "elsewhere", tmp_path / "out2")
    assert len(runs(tmp_path / "out2")) == 1


def test_nothing_leaves_the_folder(tmp_path, record):
    record.write_bytes(record.read_bytes().replace(ID.encode(), b"../../evil"))
    with pytest.raises(UsageError, match="run id"):
        import_path(record, tmp_path / "out")
    assert not (tmp_path / "evil.jsonl").exists()


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no records"):
        import_path(tmp_path, tmp_path / "out")


def test_a_copy_of_another_tools_file_is_the_same_run(tmp_path):
    sample = Path(__file__).parents[1] / "plugins" / "importers" / "samples" / "timm_train.csv"
    folder, copy = tmp_path / "out", tmp_path / "renamed.csv"
    ((run_id, new),) = import_path(sample, folder)
    assert new
    copy.write_bytes(sample.read_bytes())
    os.utime(copy, (1e9, 1e9))
    assert import_path(copy, folder) == [(run_id, False)], "it does not say when it was measured"
    copy.write_bytes(sample.read_bytes().replace(b"810.4", b"811.4"))
    assert import_path(copy, folder)[0][1]
    assert len(runs(folder)) == 2

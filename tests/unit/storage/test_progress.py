import os
import socket

import pytest
from build import a_case, a_run, a_trial

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Added, End
from torchstone.core.schema.trial import Outcome, Status
from torchstone.storage import progress
from torchstone.storage.progress import Following, is_written
from torchstone.storage.record_writer import RecordWriter

CASES = (a_case(), a_case({"batch_size": 64}))


def trial(number, place=0, **changes):
    return a_trial(case_id=CASES[place].case_id, trial_id=f"t{place}{number}", number=number, **changes)


@pytest.fixture
def writer(tmp_path):
    run = a_run(cases=CASES)
    with RecordWriter(tmp_path / "records" / f"{run.head.run_id}.jsonl", run.head) as found:
        yield found


def test_each_look_finds_what_was_added(writer):
    following = Following(writer.path)
    assert (following.look().done, following.look().planned) == (0, 6)
    for number in range(2):
        writer.append(trial(number, steps_s=[0.010 + 0.0001 * number] * 10))
    writer.append(trial(0, 1, status=Status.OUT_OF_MEMORY))
    found = following.look()
    assert (found.done, found.failed, found.ended, found.whole) == (3, 1, None, True)
    first, second = found.cases
    assert (first.label, first.ok, first.failed) == ("train cnn, batch_size 16", 2, 0)
    low, rate, high = (value or 0.0 for value in (first.low, first.rate, first.high))
    assert 0.0 < low < rate < high
    assert (second.ok, second.failed, second.rate) == (0, 1, None)
    assert [one.status for one in found.latest] == ["out_of_memory", "ok", "ok"]
    writer.append(End("2026-11-21T10:01:00Z", "done"))
    assert following.look().ended == "done"
    assert following.look() == Following(writer.path).look()


def test_a_torn_line_is_read_when_it_is_whole(writer):
    following = Following(writer.path)
    line = encode(trial(0)) + b"\n"
    with writer.path.open("ab") as file:
        file.write(line[:100])
        file.flush()
        assert following.look().done == 0
        file.write(line[100:])
    assert following.look().done == 1


def test_an_interrupted_trial_that_is_taken_again_is_one(writer):
    following = Following(writer.path)
    writer.append(trial(0, outcome=Outcome(Status.INTERRUPTED)))
    writer.append(End("2026-11-21T10:01:00Z", "interrupted"))
    assert (following.look().done, following.look().ended) == (0, "interrupted")
    writer.append(trial(0))
    assert (following.look().done, following.look().ended) == (1, None)


def test_cases_that_a_search_adds_and_runs_without_a_number_of_trials(tmp_path):
    run = a_run(cases=CASES[:1], procedure=Procedure())
    path = tmp_path / "r.jsonl"
    path.write_bytes(encode(run.head) + b"\n" + encode(Added(CASES[1])) + b"\n" + encode(trial(0, 1)) + b"\n")
    found = Following(path).look()
    assert found.planned is None
    assert [case.ok for case in found.cases] == [0, 1]


def test_a_long_record_is_read_by_several_looks(writer, monkeypatch):
    for number in range(3):
        writer.append(trial(number))
    following = Following(writer.path)
    monkeypatch.setattr(progress, "_MOST_S", 0.0)
    with pytest.raises(UsageError, match="no run has begun"):
        following.look()
    monkeypatch.setattr(progress, "_MOST_S", 5.0)
    assert following.look().done == 3


def test_another_file_by_the_same_name_is_read_anew(writer):
    for number in range(3):
        writer.append(trial(number))
    following = Following(writer.path)
    assert following.look().done == 3
    head = writer.path.read_bytes().splitlines(keepends=True)[0]
    writer.path.write_bytes(head)
    assert following.look().done == 0
    writer.path.unlink()
    with pytest.raises(UsageError, match="cannot read"):
        following.look()


HERE = socket.gethostname()


def test_a_record_is_being_written_while_its_writer_is_there(writer, tmp_path):
    assert is_written(writer.path, HERE)
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"")
    assert not is_written(other, HERE)
    assert not is_written(tmp_path / "nothing.jsonl", HERE)
    assert not is_written(tmp_path / "nothing.jsonl", "elsewhere")


def test_of_another_machine_or_without_a_list_of_locks_a_record_that_grew_just_now_counts(tmp_path):
    path, nothing = tmp_path / "r.jsonl", tmp_path / "nothing"
    path.write_bytes(b"")
    assert is_written(path, "elsewhere")
    assert is_written(path, HERE, nothing)
    os.utime(path, (0, 0))
    assert not is_written(path, "elsewhere")
    assert not is_written(path, HERE, nothing)


def test_the_kernels_list_of_locks(tmp_path):
    path, locks = tmp_path / "r.jsonl", tmp_path / "locks"
    path.write_bytes(b"")
    inode = path.stat().st_ino
    locks.write_text(f"1: POSIX  ADVISORY  WRITE 708 08:01:{inode} 0 EOF\nshort\n")
    assert not is_written(path, HERE, locks)
    locks.write_text(f"1: FLOCK  ADVISORY  WRITE 708 08:01:{inode} 0 EOF\n")
    assert is_written(path, HERE, locks)

"""The folder of a CI job: read back as written; an artifact of a stranger's can only be refused."""

import json

import msgspec
import pytest
from ci_results import BASE, HEAD, SAME, SLOWER, measured, written

from torchstone.core.errors import UsageError
from torchstone.core.schema.ci import HistoryEntry, HistoryPoint
from torchstone.storage import ci_folder
from torchstone.storage.ci_folder import CI_FILE, read_ci_result, read_history


@pytest.fixture
def folder(tmp_path):
    return written(*measured({"a": SAME, "b": SLOWER}), tmp_path / "result")


def test_it_is_read_as_it_was_written(folder):
    result, runs = measured({"a": SAME, "b": SLOWER})
    found, read = read_ci_result(folder)
    assert found == result
    assert read.keys() == runs.keys()
    assert read["run-1"].comparison == runs["run-1"].comparison


def test_a_record_that_is_missing_is_left_out(folder):
    (folder / "records" / "run-0.jsonl").unlink()
    assert read_ci_result(folder)[1].keys() == {"run-1", "control"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"head": "x"}, "not a result"),
        ({"head": f"{HEAD}\n"}, "not a result"),
        ({"base": "../../etc"}, "not a result"),
        ({"margin": 0.0}, "not a result"),
        ({"limit": -1}, "not a result"),
        ({"false_alarms": 1.5}, "not a result"),
        ({"record": "head"}, "not a result"),
        ({"schema": 99}, "of schema 99, this torchstone reads schema 1: use"),
        ({"benchmarks": [{"name": "", "state": "measured"}]}, "not a result"),
        ({"benchmarks": [{"name": "a" * 201}]}, "not a result"),
        ({"benchmarks": [{"name": "a", "run_id": "../x"}]}, "not a result"),
        ({"benchmarks": [{"name": "a", "words": ["x"] * 31}]}, "not a result"),
        ({"benchmarks": [{"name": "a", "why": "x" * 2001}]}, "not a result"),
        ({"benchmarks": [{"name": "a"}] * 1001}, "not a result"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_in_a_line(folder, changes, said):
    path = folder / CI_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(UsageError, match=said) as fault:
        read_ci_result(folder)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_is_refused(folder, data):
    (folder / CI_FILE).write_bytes(data)
    with pytest.raises(UsageError, match="not a result of torchstone ci"):
        read_ci_result(folder)


def test_links_are_not_followed(folder, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_text("{}")
    record = folder / "records" / "run-0.jsonl"
    record.unlink()
    record.symlink_to(secret)
    with pytest.raises(UsageError, match="not a plain file"):
        read_ci_result(folder)
    record.unlink()
    (folder / "records").rename(tmp_path / "elsewhere")
    (folder / "records").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"):
        read_ci_result(folder)
    (folder / CI_FILE).rename(tmp_path / CI_FILE)
    (folder / CI_FILE).symlink_to(tmp_path / CI_FILE)
    with pytest.raises(UsageError, match="not a plain file"):
        read_ci_result(folder)


def test_too_many_bytes_are_refused_before_they_are_read(folder, monkeypatch):
    monkeypatch.setattr(ci_folder, "MOST_RECORDS_BYTES", 100)
    with pytest.raises(UsageError, match="exceeds the limit"):
        read_ci_result(folder)
    monkeypatch.setattr(ci_folder, "MOST_FILE_BYTES", 10)
    with pytest.raises(UsageError, match="more than 10 bytes"):
        read_ci_result(folder)


def test_a_folder_without_a_result_says_what_writes_it(tmp_path):
    with pytest.raises(UsageError, match="torchstone ci measure writes it"):
        read_ci_result(tmp_path)


def test_a_history_is_read_by_time_and_a_file_of_another_commit_is_refused(tmp_path):
    commits = tmp_path / "commits"
    with pytest.raises(UsageError, match="no such folder"):
        read_history(commits)
    commits.mkdir()
    with pytest.raises(UsageError, match="no commits/"):
        read_history(tmp_path)
    for commit, day in ((HEAD, 1), (BASE, 2)):
        one = HistoryEntry(1, commit, "f" * 40, f"2026-11-0{day}T00:00:00", 0.02, (HistoryPoint("a", "slower", 1.1),))
        (commits / f"{commit}.json").write_bytes(msgspec.json.encode(one))
    assert [one.commit for one in read_history(tmp_path)] == [HEAD, BASE]
    assert read_history(commits) == read_history(tmp_path)
    (commits / f"{'e' * 40}.json").write_bytes((commits / f"{HEAD}.json").read_bytes())
    with pytest.raises(UsageError, match="not of the one that its name has"):
        read_history(tmp_path)

import json
import math
import os
import resource
import time

import msgspec
import pytest
from build import a_finding, a_run, a_trial

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA, End, Noted, Run
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Purpose, Status
from torchstone.storage.progress import Following
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import RecordWriter, next_words

FINDING = a_finding("few_trials", Severity.WARNING, "few", "more", "run")


def written(path, run: Run):
    with RecordWriter(path, run.head) as writer:
        for trial in run.trials:
            writer.append(trial)
        for finding in run.findings:
            writer.append(Noted(finding))
        if run.end:
            writer.append(run.end)
    return path


@pytest.fixture
def record(tmp_path):
    return written(tmp_path / "records" / "r.jsonl", a_run())


def refused(path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(UsageError) as fault:
        read_record(path)
    assert str(path) in str(fault.value)
    assert "\n" not in str(fault.value)
    return str(fault.value)


def test_a_run_survives_the_round_trip(tmp_path):
    run = a_run(findings=(FINDING,))
    assert read_record(written(tmp_path / "r.jsonl", run)) == run


def test_nan_and_infinity_survive(tmp_path):
    trial = a_trial(
        steady={"loss": [1.0, math.nan, math.inf, -math.inf]}, facts={"claimed_mfu": math.nan, "other": {"none": None}}
    )
    back = read_record(written(tmp_path / "r.jsonl", a_run([trial]))).trials[0]
    assert str(back.values("loss")) == "(1.0, nan, inf, -inf)"
    assert str(back.facts.claimed["mfu"]) == "nan"
    assert back.facts.other == {"none": None}
    for line in (tmp_path / "r.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # and it is still JSON


def test_text_that_is_no_utf8_does_not_cost_the_record(tmp_path):
    head = msgspec.structs.replace(a_run().head, command=("run", os.fsdecode(b"caf\xe9.yaml")))
    with RecordWriter(tmp_path / "r.jsonl", head):
        pass
    assert read_record(tmp_path / "r.jsonl").head.command == ("run", "caf\\udce9.yaml")


def test_an_existing_file_is_never_written_over(record):
    before = record.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        RecordWriter(record, a_run().head)
    assert record.read_bytes() == before


def test_a_cut_anywhere_costs_only_the_line_it_cuts(record):
    whole = record.read_bytes()
    head_end = whole.index(b"\n")
    for size in range(head_end + 1, len(whole), 97):
        record.write_bytes(whole[:size])
        run = read_record(record)
        assert len(run.trials) >= whole[:size].count(b"\n") - 2
        assert run.trials == a_run().trials[: len(run.trials)]


def test_reopening_after_a_cut_goes_on_after_the_last_whole_line(record):
    whole = record.read_bytes()
    record.write_bytes(whole[: whole.index(b'"record":"end"') - 40])
    writer, run = RecordWriter.reopen(record)
    assert len(run.trials) == 2
    torn = record.read_bytes()
    with writer:
        assert record.read_bytes() == torn, "nothing is changed before there is something to write"
        writer.append(a_run().trials[2])
    assert read_record(record).trials == a_run().trials


def test_a_last_line_without_its_newline_counts(record):
    record.write_bytes(record.read_bytes().rstrip(b"\n"))
    assert read_record(record) == a_run()
    with RecordWriter.reopen(record)[0] as writer:
        writer.append(a_trial(trial_id="more", number=3))
    assert len(read_record(record).trials) == 4


def test_two_writers_do_not_share_a_record(tmp_path):
    with RecordWriter(tmp_path / "r.jsonl", a_run().head), pytest.raises(UsageError, match="another torchstone"):
        RecordWriter.reopen(tmp_path / "r.jsonl")


def test_a_resumed_run_forgets_what_was_said_of_the_shorter_one(tmp_path):
    run = a_run(findings=(FINDING,), end=End("t", "interrupted"))
    written(tmp_path / "r.jsonl", run)
    writer, _ = RecordWriter.reopen(tmp_path / "r.jsonl")
    with writer:
        writer.append(a_trial(trial_id="more", number=3))
    back = read_record(tmp_path / "r.jsonl")
    assert (len(back.trials), back.findings, back.end) == (4, (), None)


def test_an_interrupted_trial_counts_until_it_is_taken_again(tmp_path):
    cut = a_trial(trial_id="cut", number=2, status=Status.INTERRUPTED)
    run = a_run([*a_run().trials[:2], cut], findings=(FINDING,), end=End("t", "out of time"))
    path = written(tmp_path / "r.jsonl", run)
    assert [t.trial_id for t in read_record(path).trials] == ["t0", "t1", "cut"]
    with RecordWriter.reopen(path)[0] as writer:
        writer.append(a_run().trials[2])
        writer.append(a_trial(trial_id="probe", number=1, purpose=Purpose.PROBE))
    assert [t.trial_id for t in read_record(path).trials] == ["t0", "t1", "t2", "probe"]


def test_a_trial_that_is_there_twice_is_one(record):
    trial = a_trial(trial_id="nan", number=3, steady={"loss": [math.nan]})
    with RecordWriter.reopen(record)[0] as writer:
        writer.append(trial)
        end = a_run().end
        assert end is not None
        writer.append(end)
    whole = read_record(record)
    head, *rest = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join([head, *rest, *rest]))
    assert repr(read_record(record)) == repr(whole)
    assert Following(record).look().done == len(whole.trials) == 4
    other = msgspec.structs.replace(whole.trials[0], duration_s=99.0)
    said = refused(record, head + rest[0] + encode(other) + b"\n")
    assert "trial 't0' is there twice, with different content" in said


def test_findings_without_an_end_are_forgotten_when_the_run_goes_on(tmp_path):
    path = written(tmp_path / "r.jsonl", a_run(findings=(FINDING,), end=None))  # killed while it looked at itself
    assert read_record(path).findings == (FINDING,)
    with RecordWriter.reopen(path)[0] as writer:
        writer.append(a_trial(trial_id="more", number=3))
    assert read_record(path).findings == ()


def test_a_record_that_may_not_be_written_is_refused_in_one_line(record, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        RecordWriter.reopen(record)


def test_a_bad_line_is_named(record):
    lines = record.read_bytes().splitlines(keepends=True)
    cut = refused(record, b"".join([*lines[:2], lines[2][:50] + b"\n", *lines[3:]]))
    assert "r.jsonl:3: is not JSON" in cut
    assert "r.jsonl:2:" in refused(record, lines[0] + b'{"record":"trial","trial_id":3}\n')
    assert "second head" in refused(record, lines[0] + lines[0])
    strange = msgspec.structs.replace(a_run().trials[0], case_id="elsewhere")
    assert "not in the run's plan" in refused(record, lines[0] + encode(strange) + b"\n")
    assert "names a place" in refused(record, lines[0] + encode(a_run().end)[:-1] + b',"nonfinite":[["x",3,"nan"]]}\n')
    assert "nested too deeply" in refused(record, lines[0] + b'{"record":"end","x":' + b"[" * 100_000 + b"\n")


def test_foreign_files_are_refused(record):
    lines = record.read_bytes().splitlines(keepends=True)
    newer = lines[0].replace(b'"schema":%d' % SCHEMA, b'"schema":7')
    assert f"r.jsonl:1: of schema 7, this torchstone reads schema {SCHEMA}: use the torch" in refused(record, newer)
    assert "not a torchstone record" in refused(record, b'{"hello": 1}\n')
    assert "not a torchstone record" in refused(record, b'{"record":"head","schema":"1"}\n')
    assert "not a torchstone record" in refused(record, b"\x80\x04pickle")
    assert "not a torchstone record" in refused(record, lines[1])
    assert "not a torchstone record" in refused(record, b"{\xff\n")
    assert "no head line" in refused(record, b"")
    assert "cut off" in refused(record, lines[0][:-10])
    assert "run id" in refused(record, lines[0].replace(b'"run_id":"2', b'"run_id":"../2'))


def test_a_path_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path, "not a file"), (tmp_path / "pipe", "not a file"), (tmp_path / "x", "No such file")):
        with pytest.raises(UsageError, match=what):
            read_record(path)


@pytest.mark.parametrize("size", [2 * 2**30, 2**30 - 1])
def test_a_huge_file_of_zeros_fails_at_once(tmp_path, size):
    path = tmp_path / "zeros.jsonl"
    path.touch()
    os.truncate(path, size)
    began = time.perf_counter()
    with pytest.raises(UsageError, match=r"exceeds the limit of a record|not a torchstone record"):
        read_record(path)
    assert time.perf_counter() - began < 0.5


def test_a_line_without_end_is_bounded(record):
    with record.open("ab") as file:
        size = file.tell()
    os.truncate(record, size + 200 * 2**20)
    with pytest.raises(UsageError, match=r"r\.jsonl:6: a line of more than"):
        read_record(record)


def test_a_full_disk_costs_the_line_that_did_not_fit_and_no_other(record):
    writer, run = RecordWriter.reopen(record)
    before = record.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with writer, pytest.raises(MissingError, match=r"cannot write .*free some space, then `torchstone resume r "):
            writer.append(run.trials[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert record.read_bytes() == before


def test_what_to_type_after_a_run_that_ended_early_is_what_its_command_can_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_OUTPUT", str(tmp_path))
    head = a_run().head
    run_id, searched = head.run_id, msgspec.structs.replace(head, command=("goodput", "cnn"))
    trained = msgspec.structs.replace(head, procedure=Procedure(fit=Fit(folder="trained")))
    assert next_words(tmp_path, head) == f"`torchstone resume {run_id}` continues"
    assert (
        next_words(tmp_path / "a b", head, "goes on")
        == f"`torchstone resume {run_id} --output-dir '{tmp_path / 'a b'}'` goes on"
    )
    assert next_words(tmp_path, trained) == "`torchstone train --resume trained` continues"
    shown = f"`torchstone show {run_id}` shows what was measured; it cannot be resumed, start a new one"
    assert next_words(tmp_path, searched) == shown

"""What a report carries: the record as it is stored, its claims, their hashes; a note where it is too large."""

import hashlib
from pathlib import Path

import msgspec
from build import a_run
from reported import a_swept_run, document_of, files_of, reported, stored_summary

from torchstone.analysis.summary import summarize
from torchstone.core.schema.codec import decode, encode
from torchstone.report import carried
from torchstone.report.carried import Claims, claim_files, record_bytes
from torchstone.storage.query import find
from torchstone.storage.rows import CUT_OFF

RUN_ID = "20261121-100000-abcd"


def test_the_record_is_carried_as_it_is_stored(outputs):
    summary = stored_summary(outputs, a_swept_run())
    files = files_of(reported(summary))
    assert list(files) == [f"records/{RUN_ID}.jsonl", f"claims/{RUN_ID}.json", "SHA256SUMS"]
    record = (outputs / "records" / f"{RUN_ID}.jsonl").read_bytes()
    assert files[f"records/{RUN_ID}.jsonl"] == record
    claims: Claims = decode(files[f"claims/{RUN_ID}.json"], Claims)
    assert claims.record_sha256 == hashlib.sha256(record).hexdigest()
    assert [case.case_id for case in claims.cases] == [case.case_id for case in summary.cases]
    assert {str(case.verdict) for case in claims.cases} == {str(case.verdict) for case in summary.cases}
    kinds = [one.media_type for one in reported(summary).attachments]
    assert kinds == ["application/jsonl", "application/json", "text/plain"]


def test_a_record_that_is_too_large_is_not_carried_and_the_report_says_so(outputs, monkeypatch):
    summary = stored_summary(outputs, a_swept_run())
    monkeypatch.setattr(carried, "MOST_PACKED_BYTES", 100)
    document = reported(summary)
    assert document.attachments == ()
    assert "carries no record, so that `torchstone verify` cannot check it: its record has " in str(document.parts[-1])
    assert "its record has more than 100" in str(document.parts[-1])
    monkeypatch.setattr(carried, "MOST_RAW_BYTES", 1000)
    assert "when compressed" not in str(reported(summary).parts[-1])
    assert reported(summary).parts[:-1] == document_of(summary).parts


def test_of_a_run_that_goes_on_what_its_summary_knows_is_carried(outputs):
    run = a_run()
    assert run.end is not None
    path = outputs / "records" / f"{RUN_ID}.jsonl"
    path.parent.mkdir(parents=True)
    lines = [encode(line) + b"\n" for line in (run.head, *run.trials, run.end)]
    path.write_bytes(b"".join(lines[:3]))
    summary = summarize(find(outputs, RUN_ID))
    assert summary.status == CUT_OFF
    path.write_bytes(b"".join(lines) + b'{"record":"tri')  # meanwhile
    assert record_bytes(summary) == b"".join(lines[:3])
    path.write_bytes(lines[0] + b'{"record":"tri')
    assert record_bytes(msgspec.structs.replace(summarize(find(outputs, RUN_ID)), cases=())) == lines[0]


def test_claims_name_the_libraries_that_drew(outputs, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"torchstone": "1", "typst": "0.15"}[name])
    summary = stored_summary(outputs, a_run())
    monkeypatch.setattr("torchstone.report.carried._LIBRARIES", ("typst",))
    files = claim_files(summary, Path(summary.record).read_bytes())
    claims: Claims = decode(files[f"claims/{RUN_ID}.json"], Claims)
    assert (claims.torchstone, dict(claims.libraries)) == ("1", {"typst": "0.15"})

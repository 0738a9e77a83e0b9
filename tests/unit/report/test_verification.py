"""`verify` passes what was written, and names each of many manipulations."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from build import peaks_of
from reported import (
    Files,
    PageRenderer,
    a_page,
    a_swept_run,
    as_page,
    document_of,
    edited_claims,
    edited_record,
    files_of,
    reported,
    resealed,
    stored_summary,
)

from torchstone.report import verification
from torchstone.report.bundle import Bundle, read_bundle
from torchstone.report.document import Document
from torchstone.report.several import document_again
from torchstone.report.translation.documents import translated
from torchstone.report.verification import Verified, verify
from torchstone.storage.manifest import MANIFEST

RUN_ID = "20261121-100000-abcd"
RECORD, CLAIMS = f"records/{RUN_ID}.jsonl", f"claims/{RUN_ID}.json"


@pytest.fixture
def document(outputs) -> Document:
    """The report of three cases, with what it carries."""
    return reported(stored_summary(outputs, a_swept_run()))


@pytest.fixture(autouse=True)
def _page_renderer(monkeypatch):
    """The page of these tests stands in for that of the reports."""
    monkeypatch.setattr(verification, "renderer", lambda _: PageRenderer())


def verified(bundle: Bundle) -> Verified:
    return verify(bundle, document_of, document_again)[0]


def test_what_was_written_follows(document, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(a_page(document))
    found = verified(read_bundle(path))
    assert found.faults == ()
    assert found.notes == ()
    assert (found.cases, len(found.records)) == (3, 1)
    assert found.figures > 20
    assert found.records[0][0] == RUN_ID


def test_the_helpers_change_nothing_by_themselves(document, tmp_path):
    assert verified(as_page(tmp_path / "report.html", document, resealed(files_of(document)))).faults == ()


# ── the record ──────────────────────────────────────────────────────────────────────────────────────────────


def first_trial(lines: list[Any]) -> Any:
    return next(line for line in lines if line["record"] == "trial")


def a_sample(lines: list[Any]) -> None:
    measured = next(m for m in first_trial(lines)["measurements"] if m["metric"] == "step_time_s")
    measured["values"][0] *= 1.5
    window = next(m for m in first_trial(lines)["measurements"] if m["metric"] == "window_time_s")
    window["values"][0] = sum(measured["values"])


def a_removed_trial(lines: list[Any]) -> None:
    lines.remove(first_trial(lines))


def an_added_trial(lines: list[Any]) -> None:
    trial = first_trial(lines)
    lines.insert(lines.index(trial) + 1, {**trial, "trial_id": "again", "number": 7, "order": 70})


def a_success_made_a_failure(lines: list[Any]) -> None:
    first_trial(lines)["outcome"] = {"status": "out_of_memory", "message": "it took all"}


def a_swapped_case(lines: list[Any]) -> None:
    trials = [line for line in lines if line["record"] == "trial"]
    ids = list(dict.fromkeys(trial["case_id"] for trial in trials))
    for trial in trials:
        trial["case_id"] = {ids[0]: ids[1], ids[1]: ids[0]}.get(trial["case_id"], trial["case_id"])


def a_changed_machine(lines: list[Any]) -> None:
    lines[0]["machine"]["host"]["hostname"] = "a-much-better-host"


def a_changed_device(lines: list[Any]) -> None:
    lines[0]["machine"]["devices"][0]["memory_bytes"] *= 2


def a_changed_seed(lines: list[Any]) -> None:
    lines[0]["procedure"]["seed"] = 7


def a_changed_end(lines: list[Any]) -> None:
    lines[-1]["status"] = "interrupted"


def a_removed_finding(lines: list[Any]) -> None:
    lines.remove(next(line for line in lines if line["record"] == "finding"))


def an_invented_finding(lines: list[Any], check: str = "drift") -> None:
    case_id = first_trial(lines)["case_id"]
    finding = {"check": check, "severity": "warning", "subject": case_id}
    lines.insert(-1, {"record": "finding", "finding": finding})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (a_sample, r"throughput: claimed .* items/s.*, the record gives "),
        (a_removed_trial, r"trials: claimed 3 ok, the record has 2 ok"),
        (an_added_trial, r"trials: claimed 3 ok, the record has 4 ok"),
        (a_success_made_a_failure, r"trials: claimed 3 ok, the record has 2 ok, 1 out_of_memory"),
        (a_swapped_case, r"throughput: claimed .*, the record gives "),
        (a_changed_machine, r"report\.html: .*“host.*, the record gives “a-much-better-host"),
        (a_changed_device, r"report\.html: .*, the record gives “"),
        (a_changed_seed, r"seed: claimed 0, the record gives 7"),
        (a_changed_end, r"status: claimed done, the record gives interrupted"),
        (a_removed_finding, r"finding \w+ \(.*\): the record gives it, and it is missing"),
        (an_invented_finding, r"finding drift \(drift\): the record does not give it"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_changed_record_is_named_though_all_hashes_were_made_to_fit(document, tmp_path, change, said):
    files = files_of(document)
    assert any(b'"record":"finding"' in line for line in files[RECORD].splitlines()), "the run has to have findings"
    forged = resealed({**files, RECORD: edited_record(files[RECORD], change)})
    found = verified(as_page(tmp_path / "report.html", document, forged))
    assert any(re.search(said, fault) for fault in found.faults), found.faults


def test_a_changed_record_is_named_by_its_hash(document, tmp_path):
    files = files_of(document)
    forged = {**files, RECORD: edited_record(files[RECORD], a_sample)}
    faults = verified(as_page(tmp_path / "report.html", document, forged)).faults
    assert f"'{RECORD}' has changed: its SHA-256 is not the one in {MANIFEST}" in faults
    assert f"{RUN_ID}: the claims were computed from another record: its SHA-256 is not the one they name" in faults


# ── the claims ──────────────────────────────────────────────────────────────────────────────────────────────


def first(claims: Any) -> Any:
    return claims["cases"][0]


def a_better_figure(claims: Any) -> None:
    first(claims)["figures"]["throughput"][0] *= 1.001


def a_narrower_interval(claims: Any) -> None:
    figure = first(claims)["figures"]["throughput"]
    figure[1] = figure[0]


def more_samples(claims: Any) -> None:
    first(claims)["figures"]["throughput"][4] += 1


def another_unit(claims: Any) -> None:
    first(claims)["figures"]["throughput"][5] = "tokens/s"


def a_figure_left_out(claims: Any) -> None:
    del first(claims)["figures"]["throughput"]


def a_figure_made_up(claims: Any) -> None:
    first(claims)["figures"]["energy_per_item_j"] = [1.0, 0.9, 1.1, 3, 30, "J"]


def a_better_verdict(claims: Any) -> None:
    first(claims)["verdict"] = "VALID" if first(claims)["verdict"] != "VALID" else "SUSPECT"


def another_count(claims: Any) -> None:
    first(claims)["ends"]["ok"] = 4


def swapped_ids(claims: Any) -> None:
    one, other = claims["cases"][:2]
    one["case_id"], other["case_id"] = other["case_id"], one["case_id"]


def a_case_left_out(claims: Any) -> None:
    del claims["cases"][0]


def a_case_made_up(claims: Any) -> None:
    claims["cases"].append({**first(claims), "case_id": "0123456789ab"})


def a_finding_left_out(claims: Any) -> None:
    del claims["findings"][0]


def another_seed(claims: Any) -> None:
    claims["seed"] = 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (a_better_figure, r"throughput: claimed .*, the record gives "),
        (a_narrower_interval, r"throughput: claimed .*\[.*\], the record gives .*\[.*\]"),
        (more_samples, r"throughput: claimed .* 31 samples, the record gives .* 30 samples"),
        (another_unit, r"throughput: claimed .* tokens/s, the record gives .* items/s"),
        (a_figure_left_out, r"throughput: nothing is claimed, the record gives one"),
        (a_figure_made_up, r"energy_per_item_j: a value is claimed, the record gives none"),
        (a_better_verdict, r"verdict: claimed (VALID|SUSPECT), the record gives (VALID|SUSPECT|INVALID)"),
        (another_count, r"trials: claimed 4 ok, the record has 3 ok"),
        (swapped_ids, r"batch_size 8 on cuda:0: the record has .*batch_size 32 on cuda:0 under this id"),
        (a_case_left_out, r"batch_size 8 on cuda:0: in the record, and nothing is claimed of it"),
        (a_case_made_up, r"claimed, and the record has no such case \(0123456789ab\)"),
        (a_finding_left_out, r"finding \w+ \(.*\): in the record, and not claimed"),
        (another_seed, r"seed: claimed 3, the record gives 0"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_changed_claim_is_named(document, tmp_path, change: Callable[[Any], None], said):
    files = files_of(document)
    forged = resealed({**files, CLAIMS: edited_claims(files[CLAIMS], change)})
    faults = verified(as_page(tmp_path / "report.html", document, forged)).faults
    assert any(re.search(said, fault) for fault in faults), faults
    assert len(faults) <= 4, "no more is named than what is wrong"


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────


def headline(page: str) -> str:
    return re.sub(r"<p>Fastest: batch_size (\d+)", r"<p>Fastest: batch_size 1\1", page)


def a_cell(page: str) -> str:
    return page.replace("<td>fp32</td>", "<td>bf16</td>", 1) if "<td>fp32</td>" in page else _number(page)


def _number(page: str) -> str:
    return re.sub(r"<td>(\d)", r"<td>9\1", page, count=1)


def a_row(page: str) -> str:
    return re.sub(r"<tr>.*?</tr>", "", page, count=1)


def a_line_more(page: str) -> str:
    return page.replace("</h1>", "</h1><p>Certified.</p>")


def a_script(page: str) -> str:
    return page.replace("<script>sort()", "<script>document.body.innerText=1;sort()")


def hidden_doubts(page: str) -> str:
    return page.replace("<h2>", "<h2 hidden>")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (headline, r"report\.html: text “Fastest: batch_size 1\d+.*, the record gives “Fastest: batch_size "),
        (a_cell, r"report\.html: table cell “.*”, the record gives “"),
        (a_row, r"report\.html: table cell “.*” is missing"),
        (a_line_more, r"report\.html: text “Certified\.” does not follow from the record"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_changed_page_is_named(document, tmp_path, change, said):
    bundle = as_page(tmp_path / "report.html", document, files_of(document), change)
    assert bundle.page != a_page(document)
    faults = verified(bundle).faults
    assert any(re.search(said, fault) for fault in faults), faults


@pytest.mark.parametrize("change", [a_script, hidden_doubts])
def test_what_acts_or_hides_is_not_in_the_page_that_is_made_anew(document, tmp_path, change):
    bundle = as_page(tmp_path / "report.html", document, files_of(document), change)
    found, made = verify(bundle, document_of, document_again)
    assert (found.faults, found.uncompared) == ((), ("report.html",))
    assert "look at what --output writes" in " ".join(found.notes)
    assert made == {"report.html": a_page(document)}


def test_a_page_in_another_language_is_compared_in_it(document, tmp_path):
    korean = translated(document, "ko")
    files = files_of(document)
    files = resealed({**files, CLAIMS: edited_claims(files[CLAIMS], lambda claims: claims.update(language="ko"))})
    bundle = as_page(tmp_path / "report.html", korean, files)
    assert bundle.page is not None
    assert "신뢰구간" in bundle.page.decode()
    assert verified(bundle).faults == ()
    changed = as_page(tmp_path / "other.html", korean, files, _number)
    assert any("the record gives “" in fault for fault in verified(changed).faults)


# ── the bundle ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.pop(RECORD), f"{CLAIMS}: the record that it was computed from is missing"),
        (lambda files: files.pop(CLAIMS), f"{CLAIMS} is missing: nothing is claimed of this run"),
        (lambda files: files.pop(MANIFEST), f"{MANIFEST} is missing"),
        (lambda files: files.update({"more.txt": b"!"}), f"'more.txt' is not listed in {MANIFEST}"),
        (lambda files: files.update({MANIFEST: b"nothing\n"}), f"{MANIFEST}:1: not a line of sha256sum"),
        (lambda files: files.update({RECORD: files[RECORD][:400]}), "its head line is cut off"),
        (lambda files: files.update({CLAIMS: b"{}"}), f"{CLAIMS}: does not match the schema"),
    ],
)
def test_a_file_that_is_missing_or_no_longer_whole(document, tmp_path, change: Callable[[Files], object], said):
    files = files_of(document)
    change(files)
    faults = verified(as_page(tmp_path / "report.html", document, files)).faults
    assert any(said in fault for fault in faults), faults


def test_a_stated_hash_that_is_another_is_named(document, tmp_path):
    path = tmp_path / "report.html"
    page = a_page(document).decode()
    digest = re.search(rf'data-name="{RECORD}"[^>]*data-sha256="(\w+)"', page)
    assert digest is not None
    path.write_text(page.replace(digest[1], "0" * 64))
    assert f"{RECORD}: its SHA-256 is not the one that the page states" in verified(read_bundle(path)).faults


def test_another_version_is_named_and_its_figures_may_differ_where_a_formula_did(document, tmp_path):
    files = files_of(document)

    def older(claims: Any) -> None:
        claims.update(torchstone="0.0.9", formulas=0)
        a_better_figure(claims)

    forged = resealed({**files, CLAIMS: edited_claims(files[CLAIMS], older)})
    found = verified(as_page(tmp_path / "report.html", document, forged))
    assert found.faults == ()
    assert any(note.startswith("written by torchstone 0.0.9, verified by ") for note in found.notes)
    assert found.uncompared == (CLAIMS,), "its page is as it is written here"


def test_checks_of_another_version_may_find_other_things(document, tmp_path):
    files = files_of(document)

    def older(lines: list[Any]) -> None:
        lines[0]["machine"]["software"]["torchstone"] = "0.0.9"
        a_removed_finding(lines)

    forged = resealed({**files, RECORD: edited_record(files[RECORD], older)})
    found = verified(as_page(tmp_path / "report.html", document, forged))
    assert not [fault for fault in found.faults if "the record gives it, and it is missing" in fault]
    assert any(note.startswith("measured by torchstone 0.0.9: its checks may have found") for note in found.notes)
    assert any("the record gives it, and it is missing" in note for note in found.notes)
    assert found.uncompared == (RECORD,)


def test_peaks_that_the_record_lacks_are_as_claimed(document, tmp_path):
    files = files_of(document)
    peaks = json.loads(msgspec.json.encode(peaks_of(kind="cuda", device_name="a card")))
    claimed = resealed({**files, CLAIMS: edited_claims(files[CLAIMS], lambda claims: claims.update(peaks=[peaks]))})
    found = verified(as_page(tmp_path / "report.html", document, claimed))
    said = "the peaks that shares are of were measured apart from the run: they are as claimed"
    assert f"{CLAIMS}: {said}" in found.notes
    assert found.uncompared == (CLAIMS,)


def test_a_file_that_nothing_computes_is_named(document, tmp_path):
    files = resealed({**files_of(document), "slides.key": b"1"})
    found = verified(as_page(tmp_path / "report.html", document, files))
    assert f"slides.key: not computed from a record: only {MANIFEST} is compared" in found.notes
    assert found.uncompared == ("slides.key",)


def test_findings_of_a_run_that_was_cut_off_are_as_claimed(document, tmp_path):
    files = files_of(document)
    forged = resealed({**files, RECORD: edited_record(files[RECORD], list.pop)})
    assert RECORD in verified(as_page(tmp_path / "report.html", document, forged)).uncompared


def test_a_check_that_is_not_here_leaves_the_record_uncompared(document, tmp_path):
    files = files_of(document)
    changed = edited_record(files[RECORD], lambda lines: an_invented_finding(lines, "of_a_plugin"))
    found = verified(as_page(tmp_path / "report.html", document, resealed({**files, RECORD: changed})))
    assert RECORD in found.uncompared
    assert any("finding of_a_plugin: its check is not installed here" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("reports/other.html", True),
        ("reports/20261121-100000-abce.pdf", True),
        (f"reports/{RUN_ID}-best.html", True),
        (f"figures/{RUN_ID}x/speed.svg", True),
        (f"reports/{RUN_ID}.docx", False),  # of a format that cannot be written here
        (f"reports/{RUN_ID}_pages/1.png", False),
    ],
)
def test_a_file_that_would_follow_from_a_record(document, tmp_path, name, fault):
    found = verified(as_page(tmp_path / "report.html", document, resealed({**files_of(document), name: b"1"})))
    assert (f"{name}: no record here from which it follows" in found.faults) is fault
    assert (name in found.uncompared) is not fault


def test_what_is_told_is_data(document, tmp_path):
    found = verified(as_page(tmp_path / "report.html", document, files_of(document)))
    assert json.loads(msgspec.json.encode(found))["faults"] == []

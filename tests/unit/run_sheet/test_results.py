import json

import pytest
from run_sheet.expecting import Verdict, equal, noted
from run_sheet.results import JSON, MOST_ATTEMPTS, Sheet, State, Unfit, opened
from run_sheet.step import Step

ONE = Step("A0", "the first", 1, 1, "nothing", "m:f", (equal("x", 1), noted("y")))
TWO = Step("A1", "the second", 1, 1, "nothing", "m:f", (equal("x", 1),))


@pytest.fixture
def sheet(tmp_path):
    return Sheet(tmp_path, "cuda", quick=False)


def taken(sheet, step, state, figures, why=None):
    sheet.begin(step)
    sheet.end(step, state, 1.0, figures, why)
    return opened(sheet.folder, "cuda", quick=False)


def test_what_is_written_is_what_is_read(sheet):
    sheet.about["torch"] = "2.11.0"
    again = taken(sheet, ONE, State.DONE, {"x": 1, "y": "é", "z": None, "w": True})
    assert again == sheet


def test_a_step_that_has_begun_is_known_before_it_ends(sheet):
    sheet.begin(ONE)
    again = opened(sheet.folder, "cuda", quick=False)
    assert again.steps["A0"].state == State.BEGUN
    assert again.wants(ONE)


@pytest.mark.parametrize("state", [s for s in State if s not in (State.BEGUN, State.CUT)])
def test_a_step_that_has_ended_is_not_taken_again(sheet, state):
    assert not taken(sheet, ONE, state, {}).wants(ONE)


def test_one_that_was_cut_is_taken_again_and_keeps_what_it_told(sheet):
    again = taken(sheet, ONE, State.CUT, {"y": 2})
    assert again.wants(ONE)
    again.begin(ONE)
    assert again.steps["A0"].before == [{"y": 2}]
    again.end(ONE, State.CUT, 1.0, {"y": 3}, None)
    assert again.steps["A0"].attempts == MOST_ATTEMPTS
    assert not again.wants(ONE)
    assert [row.verdict for row in again.rows(ONE)] == [Verdict.FAILED, Verdict.NOTED]


def test_device_and_versions_that_a_step_tells_are_kept(sheet):
    sheet.about["device_name"] = "?"
    assert taken(sheet, ONE, State.DONE, {"x": 1, "device_name": "NVIDIA H200"}).about["device_name"] == "NVIDIA H200"


def test_fine_is_every_step_taken_and_every_expectation_held(sheet):
    assert not sheet.is_fine([ONE])
    taken(sheet, ONE, State.DONE, {"x": 1})
    assert sheet.is_fine([ONE])
    assert not sheet.is_fine([ONE, TWO])
    sheet.leave_out(TWO, "of a CPU only")
    assert sheet.is_fine([ONE, TWO])
    taken(sheet, ONE, State.DONE, {"x": 2})
    assert sheet.failed(ONE)
    assert not sheet.is_fine([ONE])


@pytest.mark.parametrize("figures", [{}, {"y": 1}])
def test_a_step_that_is_done_without_its_figure_is_not_fine(sheet, figures):
    taken(sheet, ONE, State.DONE, figures)
    assert not sheet.is_fine([ONE])


def test_a_step_that_ended_badly_is_not_fine_whatever_its_figures(sheet):
    taken(sheet, ONE, State.CRASHED, {"x": 1}, "killed by SIGSEGV")
    assert not sheet.is_fine([ONE])
    assert [(row.figure, row.verdict) for row in sheet.rows(ONE)] == [
        ("crashed: killed by SIGSEGV", Verdict.FAILED), ("1", Verdict.OK)
    ]  # fmt: skip


def test_a_kill_while_it_writes_leaves_the_old_file(sheet, monkeypatch):
    taken(sheet, ONE, State.DONE, {"x": 1})
    before = (sheet.folder / JSON).read_text()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        sheet.begin(TWO)
    assert (sheet.folder / JSON).read_text() == before


BEGINNING = '{"schema":1,"device":"cuda","quick":false,"steps":'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"schema": 1}',
        BEGINNING + "[]}",
        BEGINNING + '{"A0":{"state":"eaten"}}}',
        BEGINNING + '{"A0":1}}',
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    (tmp_path / JSON).write_text(text)
    with pytest.raises(Unfit, match="is no result of this program"):
        opened(tmp_path, "cuda", quick=False)


@pytest.mark.parametrize(("device", "quick"), [("cpu", False), ("cuda", True)])
def test_results_of_another_device_or_way_are_refused(sheet, device, quick):
    taken(sheet, ONE, State.DONE, {"x": 1})
    with pytest.raises(Unfit, match="is of --device cuda"):
        opened(sheet.folder, device, quick=quick)


def test_the_table_escapes_what_would_break_it(sheet):
    taken(sheet, ONE, State.DONE, {"x": "a|b\nc"})
    lines = sheet.write_table([ONE]).read_text().splitlines()
    assert lines[-1] == "| A0 (1 s) | x = 1 | a\\|b c | FAILED |"


def test_the_json_names_the_device(sheet):
    taken(sheet, ONE, State.DONE, {"x": 1})
    told = json.loads((sheet.folder / JSON).read_text())
    assert (told["device"], told["quick"], told["steps"]["A0"]["took_s"]) == ("cuda", False, 1.0)

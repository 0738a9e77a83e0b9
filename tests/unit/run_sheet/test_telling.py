import pytest
from run_sheet import telling
from run_sheet.expecting import Judged, Verdict
from run_sheet.results import ENDS, State, Taken

WHY = "Refused: torchstone run --model hf:distilbert-base-uncased … printed no document and ended with 3: cpu is busy"
ROWS = (
    Judged(ENDS, f"crashed: {WHY}", Verdict.FAILED), Judged("devices ≥ 1", "1", Verdict.OK),
    Judged("memory", "25 Gbytes", Verdict.NOTED),
)  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    taken = Taken(State.CRASHED, "", took_s=17.2, why=WHY, said=["| " + "x" * 300, "the last words"])
    lines = list(telling.ended("A2", taken, ROWS, width))
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()).startswith(f"A2 crashed after 17 s: {WHY}")


def test_why_it_ended_is_said_once_and_what_is_only_noted_is_left_to_the_table():
    text = "\n".join(telling.ended("A2", Taken(State.CRASHED, "", took_s=17.2, why=WHY), ROWS, 200))
    assert text.count("cpu is busy") == 1
    assert "ok         devices ≥ 1: 1" in text
    assert "25 Gbytes" not in text


def test_a_path_is_not_broken():
    path = "/a" * 60
    lines = list(telling.ended("A2", Taken(State.CUT, "", why=f"see {path}/log.txt for it"), (), 80))
    assert any(line.endswith(f"{path}/log.txt") for line in lines)


@pytest.mark.parametrize(("state", "said"), [(State.CRASHED, True), (State.DONE, False), (State.TOO_LONG, False)])
def test_last_words_are_said_of_what_crashed(state, said):
    text = "\n".join(telling.ended("A2", Taken(state, "", said=["the last words"]), (), 80))
    assert ("| the last words" in text) is said


def test_the_terminals_width_is_taken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, telling.ended("A2", Taken(State.CRASHED, "", why=WHY), ROWS))) <= 50

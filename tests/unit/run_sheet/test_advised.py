"""What is advised is measured again: on documents as torchstone prints them."""

import json

import pytest
from fake_steps import here
from run_sheet import advised
from run_sheet.here import Done


def case(rate):
    return {
        "case_id": "a", "estimates": {"throughput": {"value": rate}}, "trials": [{"outcome": {"status": "ok"}}],
    }  # fmt: skip


def measured(folder, name, rate, loss):
    trial = {"record": "trial", "case_id": "a", "outcome": {"status": "ok"},
             "measurements": [{"metric": "loss", "stage": "steady", "values": [loss, 0.1]}]}  # fmt: skip
    path = folder / f"{name}.jsonl"
    path.write_text(json.dumps(trial) + "\n")
    return {"cases": [case(rate)], "record": str(path)}


def diagnosis(settings, gain=2.9):
    applied = {"what_if": {"settings": settings}, "gain": {"value": gain}} if settings else None
    return {"answer": {
        "causes": [{"id": "precision", "share": 0.5}], "tried": [{"gain": {"value": 2.0}}, {"gain": None}],
        "applied": applied,
    }}  # fmt: skip


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Take the step with these answers, one a command; return what it told and what was asked."""
    monkeypatch.setattr(advised, "kernels", lambda *_: None)

    def take(*answers):
        waiting, asked = iter(answers), []

        def torchstone(*words, **_):
            asked.append(json.loads((tmp_path / words[1].rpartition("/")[2]).read_text())["workloads"][0]["axes"])
            told = next(waiting)
            return told if isinstance(told, Done) else Done(words, 0, json.dumps(told), "", 1.0)

        def write(name, content):
            (tmp_path / name).write_text(json.dumps(content))
            return tmp_path / name

        step = here(on_cpu=False, write=write, torchstone=torchstone)
        advised.diagnosed(step)
        return step.told, asked

    return take


def test_advice_is_taken_and_held_against_what_was_before(taken, tmp_path):
    told, asked = taken(
        diagnosis({"precision": "bf16", "compile": "default"}),
        measured(tmp_path, "one", 100.0, 0.70),
        measured(tmp_path, "two", 310.0, 0.707),
    )
    assert [(axes["precision"], axes.get("compile")) for axes in asked] == [
        ("fp32", None), ("fp32", None), ("bf16", "default")
    ]  # fmt: skip
    assert told["advised_over_naive"] == pytest.approx(3.1)
    assert told["first_losses_apart"] == pytest.approx(0.01)
    assert (told["advised"], told["stated_gain"]) == ("precision=bf16, compile=default", 2.9)
    assert (told["first_cause"], told["largest_gain"], told["tried"]) == ("precision", 2.0, 2)


def test_where_nothing_helps_nothing_is_measured_again(taken):
    told, asked = taken(diagnosis({}))
    assert (told["advised"], len(asked)) == ("nothing", 1)
    assert "advised_over_naive" not in told


def test_a_diagnose_that_prints_nothing_says_why(taken):
    told, _ = taken(Done(("torchstone", "diagnose"), 3, "", "torchstone: no device", 1.0))
    assert told["exit_code"] == 3
    assert "no device" in told["why"]


def test_a_run_without_a_rate_has_no_ratio(taken, tmp_path):
    crashed = {"cases": [{**case(1.0), "estimates": {}}], "record": str(tmp_path / "none.jsonl")}
    (tmp_path / "none.jsonl").touch()
    told, _ = taken(diagnosis({"precision": "bf16"}), measured(tmp_path, "one", 100.0, 0.7), crashed)
    assert told["throughput_naive"] == 100.0
    assert not {"advised_over_naive", "first_losses_apart"} & set(told)

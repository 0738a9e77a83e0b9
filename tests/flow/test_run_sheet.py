"""The run sheet as a program, on steps that end in every way a step can end: what was measured stays."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("run_sheet")  # one measurement serves all its tests

TESTS = Path(__file__).parents[1]
PROGRAM = TESTS.parent / "benchmarks" / "accelerator.py"
EACH = {  # step → how it ends, and the figure that it told before
    "A0": ("done", None), "A2": ("too long", 1.5), "A3": ("not here", None), "B1": ("out of memory", 2.5),
    "B2": ("out of memory", 3.5), "B3": ("crashed", 4.5), "B4": ("crashed", 5.5), "C1": ("crashed", 6.5),
    "C2": ("no answer", None), "C3": ("no answer", None), "C4": ("wrong answer", 7.5), "D1": ("wrong answer", 8.5),
    "D2": ("crashed", 9.5), "D3": ("done", None), "D4": ("not here", None),
}  # fmt: skip


def start(folder, *words, sheet="STEPS", device="cuda", more=None):
    command = [sys.executable, str(PROGRAM), "--device", device, "--output", str(folder)]
    command += ["--sheet", f"fake_steps:{sheet}", *words]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **(more or {})}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(folder, *words, **more):
    process = start(folder, *words, **more)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def results(folder):
    return json.loads((folder / "sheet.json").read_text())["steps"]


def table(folder):
    return (folder / "sheet.md").read_text()


def wait_for(condition, within_s=20.0):
    ends = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.02)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The four parts on a sheet of failures, once."""
    folder = tmp_path_factory.mktemp("sheet")
    return folder, *run(folder)


def test_every_way_to_end_is_told_apart_and_what_was_measured_stays(whole):
    folder, code, _, err = whole
    assert (code, err) == (1, "")
    found = {name: (step["state"], step["figures"].get("before")) for name, step in results(folder).items()}
    assert found == EACH


def test_a_step_that_fails_stops_no_other(whole):
    folder, *_ = whole
    assert set(results(folder)) == set(EACH)
    assert results(folder)["D3"]["figures"] == {"ratio": 1.2}


def test_the_reason_is_told(whole):
    why = {name: step["why"] for name, step in results(whole[0]).items()}
    assert why["A2"] == "it did not end within 4 s, its limit"
    assert why["A3"] == "no abacus is attached"
    assert why["B1"] == "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert why["B3"] == "killed by SIGSEGV"
    assert why["B4"] == "ValueError: this one"
    assert why["C1"] == "it exited with code 7"
    assert why["C3"] == "it came to its end and told no figure"
    assert "list is no figure" in why["C4"]
    assert why["D2"] == "killed by SIGKILL"
    assert why["D4"] == "of a CPU only"
    assert "the last words" in results(whole[0])["B3"]["said"]


def test_the_table_has_expectation_figure_and_verdict(whole):
    lines = [line for line in table(whole[0]).splitlines() if line.startswith("| ")]
    assert any(line.startswith("| D3 (") and line.endswith("| ratio 1 ± 1 % | 1.2 | FAILED |") for line in lines)
    assert any(line.startswith("| A0 (") and line.endswith("| answer = 42 | 42 | ok |") for line in lines)
    assert any(line.startswith("| D4 | good | of a CPU only | not here |") for line in lines)
    hung = lines.index(next(line for line in lines if line.startswith("| A2 (")))
    assert "| the step comes to its end | too long: it did not end within 4 s, its limit | FAILED |" in lines[hung]
    assert lines[hung + 1] == "|  | before | 1.5 | noted |"


def test_a_step_that_hangs_is_ended_with_its_childrens_children(whole):
    assert not is_alive(results(whole[0])["A2"]["figures"]["child"])
    mark = f"RUN_SHEET_FOLDER={whole[0]}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert mark not in path.read_bytes().split(b"\0"), path.parent.joinpath("cmdline").read_bytes()
        except OSError:
            continue


def test_called_again_it_takes_nothing_twice_but_what_is_asked_for(whole):
    folder, *_ = whole
    before = results(folder)
    code, out, _ = run(folder, "--step", "A0", "--step", "D3")
    assert (code, results(folder)) == (1, before)
    assert "A0  taken before: done" in out
    assert not (folder / "steps" / "A0.1").exists()
    run(folder, "--step", "A0", "--step", "D3", "--again", "A0")
    anew = json.loads((folder / "steps" / "A0" / "answers.jsonl").read_text().splitlines()[0])
    assert anew == {"figure": "answer", "value": 42}
    assert {path.name for path in (folder / "steps").glob("*.1")} == {"A0.1"}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_cut_in_the_middle_it_goes_on_from_there(tmp_path, how):
    process = start(tmp_path, sheet="GOOD")
    answers = tmp_path / "steps" / "B1" / "answers.jsonl"
    wait_for(lambda: answers.exists() and answers.read_text().endswith("\n"))
    process.send_signal(how)
    process.communicate(timeout=120)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    first = results(tmp_path)
    assert first["A0"]["state"] == "done"
    assert first["B1"]["state"] == ("begun" if how == signal.SIGKILL else "cut")
    (tmp_path / "go").touch()
    code, out, err = run(tmp_path, sheet="GOOD")
    assert (code, err) == (0, ""), out
    then = results(tmp_path)
    assert then["A0"] == first["A0"]
    assert then["B1"]["state"] == "done"
    assert then["B1"]["figures"] == {"before": 10.5, "after": 1}
    assert then["B1"]["before"] == [{"before": 10.5}]


def test_a_step_with_which_the_whole_program_ends_twice_is_left_alone(tmp_path):
    answers = tmp_path / "steps" / "B1" / "answers.jsonl"
    for attempt in (1, 2):
        process = start(tmp_path, sheet="GOOD")
        wait_for(lambda attempt=attempt: results_at(tmp_path, "B1", attempt) and answers.read_text().endswith("\n"))
        process.kill()
        process.communicate(timeout=120)
    code, out, _ = run(tmp_path, sheet="GOOD")
    assert code == 1
    assert results(tmp_path)["D1"]["state"] == "done"
    assert results(tmp_path)["B1"]["figures"] == {"before": 10.5}
    assert "not as expected: B1" in out


def results_at(folder, name, attempt):
    if not (folder / "sheet.json").exists():
        return False
    step = results(folder).get(name)
    answers = folder / "steps" / name / "answers.jsonl"
    return step is not None and step["attempts"] == attempt and answers.exists()


def test_what_does_not_fit_into_its_part_is_left_to_the_next_call(tmp_path):
    code, out, _ = run(tmp_path, "--within", "0.05", sheet="GOOD")
    assert (code, results(tmp_path) if (tmp_path / "sheet.json").exists() else {}) == (1, {})
    assert "left to do: A0, B1, D1" in out
    (tmp_path / "go").touch()
    assert run(tmp_path, sheet="GOOD")[0] == 0


def test_cut_by_the_end_of_its_part_it_is_taken_again(tmp_path):
    code, out, _ = run(tmp_path, "--within", "5", sheet="SLOW")
    assert code == 1
    assert results(tmp_path)["A0"]["state"] == "cut"
    assert results(tmp_path)["A0"]["figures"] == {"before": 10.5}
    assert "left to do: A0, A1" in out
    (tmp_path / "go").touch()
    assert run(tmp_path, sheet="SLOW")[0] == 0


def test_where_forks_do_not_work_later_trials_are_new_interpreters(tmp_path):
    run(tmp_path, sheet="FORKS")
    assert results(tmp_path)["A2"]["figures"]["isolation"] == "spawn"


def test_where_they_do_trials_start_as_they_like(whole):
    assert results(whole[0])["A0"]["figures"] == {"answer": 42, "device": "cuda", "isolation": None}


def test_copies_are_made_after_each_step_and_when_it_is_stopped(tmp_path):
    folder, copy = tmp_path / "results", tmp_path / "copy"
    process = start(folder, "--copy", str(copy), sheet="GOOD")
    wait_for(lambda: results_at(folder, "B1", 1))
    assert results(copy)["A0"]["figures"]["answer"] == 42
    process.terminate()
    process.communicate(timeout=120)
    assert results(copy)["B1"]["state"] == "cut"
    (folder / "go").touch()
    assert run(folder, "--copy", str(copy), sheet="GOOD")[0] == 0
    assert results(copy) == results(folder)
    assert table(copy) == table(folder)
    with tarfile.open(copy / "steps.tar.gz") as archive:
        assert {"steps/A0/log.txt", "steps/B1.1/answers.jsonl"} <= set(archive.getnames())


def test_what_was_brought_back_is_gone_on_with_elsewhere(tmp_path):
    assert run(tmp_path / "there", "--part", "A", "--copy", str(tmp_path / "copy"), sheet="GOOD")[0] == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "sheet.json").write_bytes((tmp_path / "copy" / "sheet.json").read_bytes())
    (elsewhere / "go").touch()
    code, out, _ = run(elsewhere, sheet="GOOD")
    assert (code, list(results(elsewhere))) == (0, ["A0", "B1", "D1"])
    assert "A0  taken before: done" in out


def test_a_driver_tool_that_fails_stops_nothing(tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    more = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    code, out, err = run(tmp_path / "results", "--part", "A", sheet="GOOD", more=more)
    assert (code, err) == (0, "")
    assert "exit status 9" in out


def test_one_part_alone(tmp_path):
    assert run(tmp_path, "--part", "A", sheet="GOOD")[0] == 0
    assert list(results(tmp_path)) == ["A0"]


def test_quick_leaves_out_what_takes_minutes(tmp_path):
    (tmp_path / "go").touch()
    assert run(tmp_path, "--quick", sheet="GOOD")[0] == 0
    assert results(tmp_path)["D1"]["state"] == "not here"
    assert results(tmp_path)["D1"]["why"] == "it takes minutes"


def test_two_at_once_in_one_folder_are_one_too_many(tmp_path):
    process = start(tmp_path, sheet="SLOW")
    wait_for(lambda: results_at(tmp_path, "A0", 1))
    code, _, err = run(tmp_path, sheet="SLOW")
    (tmp_path / "go").touch()
    process.communicate(timeout=60)
    assert (code, process.returncode) == (2, 0)
    assert err.count("\n") == 1
    assert "is at work in" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--step", "A9"], "no step A9; there are A0"),
        (["--wheels", "/nowhere"], "--wheels /nowhere: there is no such folder"),
        (["--copy", "/dev/null/copy"], "--copy /dev/null/copy cannot be made"),
    ],
)
def test_a_wrong_request_is_one_line_and_code_2(tmp_path, words, says):
    code, out, err = run(tmp_path, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_results_of_another_device_are_not_gone_on_with(tmp_path):
    assert run(tmp_path, "--part", "A", sheet="GOOD")[0] == 0
    code, _, err = run(tmp_path, "--part", "A", sheet="GOOD", device="cpu")
    assert code == 2
    assert "is of --device cuda" in err


def test_a_broken_file_of_results_is_not_written_over(tmp_path):
    (tmp_path / "sheet.json").write_text("{not json")
    code, _, err = run(tmp_path, sheet="GOOD")
    assert (code, (tmp_path / "sheet.json").read_text()) == (2, "{not json")
    assert "is no result of this program" in err

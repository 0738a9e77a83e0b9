import pytest
from fake_steps import _step
from run_sheet import driving
from run_sheet.results import State


def read(tmp_path, text, code=0, out_of_memory=False):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return driving._read(path, code, out_of_memory=out_of_memory)


FIGURE = '{"figure": "x", "value": 1.5}\n'
END = '{"end": true}\n'


@pytest.mark.parametrize(
    ("text", "code", "state"),
    [
        (FIGURE + END, 0, State.DONE), (FIGURE, 0, State.NO_ANSWER), ("", 0, State.NO_ANSWER),
        (END, 0, State.NO_ANSWER),
        (FIGURE, -9, State.CRASHED), (FIGURE, 3, State.CRASHED), (FIGURE + END, -11, State.CRASHED),
        (FIGURE + '{"not_here": "why"}\n', 0, State.NOT_HERE),
        ('{"failed": "out of memory", "why": "w"}\n', 1, State.OUT_OF_MEMORY),
        ('{"failed": "eaten", "why": "w"}\n', 1, State.WRONG_ANSWER), ("[]\n", 0, State.WRONG_ANSWER),
        ('{"figure": "x"}\n', 0, State.WRONG_ANSWER), ('{"figure": 1, "value": 1}\n', 0, State.WRONG_ANSWER),
        ('{"figure": "x", "value": {}}\n', 0, State.WRONG_ANSWER), ('{"word": 1}\n', 0, State.WRONG_ANSWER),
        (b"\xff\xfe\n", 0, State.WRONG_ANSWER), ("null\n", 0, State.WRONG_ANSWER),
    ],
)  # fmt: skip
def test_how_a_step_ended_follows_from_its_answers_and_its_code(tmp_path, text, code, state):
    assert read(tmp_path, text, code).state == state


def test_what_came_before_a_wrong_line_stays(tmp_path):
    ended = read(tmp_path, FIGURE + "oops\n" + '{"figure": "y", "value": 1}\n')
    assert (ended.state, ended.figures) == (State.WRONG_ANSWER, {"x": 1.5})
    assert ended.why is not None
    assert ended.why.startswith("line 2 of its answers")


def test_a_torn_last_line_is_that_of_a_process_killed(tmp_path):
    ended = read(tmp_path, FIGURE + '{"figure": "y", "val', -9)
    assert (ended.state, ended.figures, ended.why) == (State.CRASHED, {"x": 1.5}, "killed by SIGKILL")


def test_a_kill_by_the_kernel_for_memory_is_told_apart(tmp_path):
    assert read(tmp_path, FIGURE, -9, out_of_memory=True).state == State.OUT_OF_MEMORY
    assert read(tmp_path, FIGURE + END, 0, out_of_memory=True).state == State.DONE


def test_a_figure_may_be_missing(tmp_path):
    assert read(tmp_path, '{"figure": "x", "value": null}\n' + END).figures == {"x": None}


def test_a_step_is_told_where_it_is(tmp_path):
    asked = driving.Asked("xpu", True, "spawn", tmp_path, (tmp_path / "one", tmp_path / "two"))
    words = driving._command(_step("A0", "good"), asked, tmp_path / "A0")
    assert words[1:5] == ["-m", "run_sheet.one_step", "A0", "fake_steps:good"]
    assert "--quick" in words
    assert words[-2:] == ["--isolation", "spawn"]
    environment = driving._environment(asked)
    assert environment["PYTHONPATH"].startswith(f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert environment[driving.MARK] == str(tmp_path)
    assert environment["TORCHSTONE_CACHE"].startswith(str(tmp_path))


@pytest.mark.parametrize(("device", "word"), [("cuda", "refuse"), ("mps", "refuse"), ("cpu", "share")])
def test_a_cpu_is_shared_and_another_device_is_ones_own(tmp_path, monkeypatch, device, word):
    monkeypatch.delenv("TORCHSTONE_WHEN_BUSY", raising=False)
    asked = driving.Asked(device, False, None, tmp_path, ())
    assert driving._environment(asked)["TORCHSTONE_WHEN_BUSY"] == word
    monkeypatch.setenv("TORCHSTONE_WHEN_BUSY", "wait")
    assert driving._environment(asked)["TORCHSTONE_WHEN_BUSY"] == "wait"


def test_a_step_has_thrice_its_limit_on_a_cpu():
    step = _step("A0", "good", limit_s=20.0)
    assert (step.most_s("cpu"), step.most_s("cuda")) == (60.0, 20.0)


def test_what_an_attempt_before_left_is_moved_aside(tmp_path):
    for _ in range(3):
        (driving._fresh(tmp_path / "A0") / "file").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A0", "A0.1", "A0.2"]


def test_figures_of_a_step_that_never_began_are_none(tmp_path):
    assert driving.figures_so_far(tmp_path, _step("A0", "good")) == {}


def test_what_is_not_finite_is_a_missing_figure(tmp_path):
    assert read(tmp_path, '{"figure": "x", "value": NaN}\n{"figure": "y", "value": 1}\n' + END).figures == {
        "x": None,
        "y": 1,
    }

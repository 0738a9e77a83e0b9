import json
import os

import pytest
from fake_steps import here
from run_sheet import forks
from run_sheet.here import Done


def probed(answers, device="cuda"):
    """Answers: what the interpreter of each import told; by import, and for the plain way too."""

    def python(*words, more=None, **_):
        plain = more == {"PYTORCH_NVML_BASED_CUDA_CHECK": "0"}
        told = answers.get((words[-1], plain), answers.get(words[-1], {"code": 3, "child": "ok", "asked": []}))
        return Done(words, 0, told if isinstance(told, str) else json.dumps(told), "Killed", 1.0)

    step = here(device=device, torch_kind=device, quick=True, python=python)
    forks.probe(step)
    return step.told


def test_a_machine_where_nothing_asks_the_driver():
    told = probed({})
    assert (told["code_builtin"], told["child_bert"]) == (3, "ok")
    assert told["not_initialised"] is told["children_work"] is told["not_initialised_plain"] is True


def test_a_library_that_initialises_the_driver_is_named_by_its_code():
    told = probed({"hf:bert-base-uncased": {"code": 0, "child": "RuntimeError: Cannot re-initialize", "asked": []}})
    assert (told["code_bert"], told["not_initialised"], told["children_work"]) == (0, False, False)
    assert told["code_builtin"] == 3


def test_where_only_the_plain_way_asks_the_guarded_one_is_good():
    told = probed({("hf:bert-base-uncased", True): {"code": 0, "child": "ok", "asked": []}})
    assert (told["not_initialised"], told["not_initialised_plain"]) == (True, False)


@pytest.mark.parametrize("answer", ["", "no json"])
def test_an_interpreter_that_dies_is_a_child_that_does_not_work(answer):
    told = probed({"builtin:cnn": answer})
    assert told["children_work"] is False
    assert told["child_builtin"] == "no answer: Killed"


def test_where_there_is_no_such_driver_only_the_child_is_asked():
    told = probed({"builtin:cnn": {"code": None, "child": "ok", "asked": []}}, device="cpu")
    assert told["children_work"] is True
    assert not {"not_initialised", "not_initialised_plain"} & set(told)


def test_a_driver_that_is_not_asked_is_not_found_clean():
    told = probed({"builtin:cnn": {"code": None, "child": "ok", "asked": []}})
    assert told["not_initialised"] is False


def test_without_torch_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(forks, "find_spec", lambda _: None)
    with pytest.raises(RuntimeError, match="torch is not installed"):
        probed({})


def test_a_forked_child_computes_here():
    assert forks.in_a_fork("cpu") == "ok"


def test_a_child_that_cannot_says_why(monkeypatch):
    monkeypatch.setattr(forks, "_computed", lambda _: "RuntimeError: Cannot re-initialize CUDA in forked subprocess")
    assert forks.in_a_fork("cuda").startswith("RuntimeError: Cannot re-initialize")


def test_a_child_that_dies_is_told_by_its_signal(monkeypatch):
    monkeypatch.setattr(forks, "_computed", lambda _: os.kill(os.getpid(), 9))
    assert forks.in_a_fork("cuda") == "killed by SIGKILL"


def test_a_driver_that_is_not_there_has_no_code(monkeypatch):
    def nowhere(_):
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", nowhere)
    assert forks.driver_code() is None

"""Any function measured: `torchstone.measure(function, …)`, and `torchstone run py:FILE.py:FUNCTION`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import torchstone
from torchstone.cli import main

QUICK: Any = {"trials": 2, "warmup": 1, "iterations": 4}
FILE = """
import os
import torch

def product(size: int = 8):
    a = torch.ones(size, size)
    return a @ a

def on(x, device):
    assert isinstance(device, torch.device)
    return x * os.getpid()

def learns(x):
    w = torch.ones(3, requires_grad=True)
    (w * x).sum().backward()
    return w.grad

def load():
    return torch.nn.Linear(2, 2), torch.ones(1, 2)

def ignores(x):
    return 1

def fails():
    raise ValueError("no luck")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own, beside where they work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_OUTPUT", "outputs")
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_functions.py").write_text(FILE, encoding="utf-8")
    sys.modules.pop("own_functions", None)
    import own_functions  # type: ignore[import-not-found]

    return own_functions


def only(run):
    (case,) = run.cases
    assert {str(t.outcome.status) for t in case.trials} == {"ok"}
    return case


def test_a_function_of_a_file_is_called_in_fresh_processes_with_its_tensors(own):
    run = torchstone.measure(own.on, torch.ones(3), **QUICK)
    case = only(run)
    assert run.procedure.isolation != "inline"
    assert (str(case.workload.task), case.workload.item) == ("call", "call")
    assert case.estimates["total_items"].value == 2 * 4, "two windows of four calls"
    assert not [f for f in case.findings if f.check == "in_this_process"]
    assert case.case_id == only(torchstone.measure(own.on, torch.ones(3), **QUICK)).case_id
    assert case.case_id != only(torchstone.measure(own.on, torch.ones(4), **QUICK)).case_id


def test_gradients_are_on():
    w = torch.ones(3, requires_grad=True)
    only(torchstone.measure(lambda: (w * 2).sum().backward(), **QUICK))
    assert w.grad is not None


def test_gradients_are_on_in_a_fresh_process(own):
    case = only(torchstone.measure(own.learns, 2.0, **QUICK))
    assert {trial.outcome.status for trial in case.trials} == {"ok"}, "without gradients, backward() would fail"


class Unsendable:
    def __reduce__(self):
        raise TypeError


@pytest.mark.parametrize(("which", "reason"), [("lambda", "function"), ("object", "arguments")])
def test_what_no_process_can_be_sent_is_called_here_and_the_run_says_why(own, which, reason):
    calls = []
    if which == "lambda":
        run = torchstone.measure(lambda: calls.append(1), **QUICK)
    else:
        run = torchstone.measure(own.ignores, Unsendable(), **QUICK)
    case = only(run)
    assert run.procedure.isolation == "inline"
    assert [f.reason for f in case.findings if f.check == "in_this_process"] == [reason]
    assert case.estimates["total_items"].value == 8
    if which == "lambda":
        assert len(calls) >= 8


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: torchstone.measure(3), "neither a module nor a function"),
        (lambda: torchstone.measure(torch.nn.Linear(2, 2)), "a module and one batch, got 0"),
        (lambda: torchstone.measure(len, [1], task="train"), "task is for modules"),
        (lambda: torchstone.measure(lambda: 1, batch_size=3), "batch_size"),
        (lambda: torchstone.measure(lambda: 1, trials=0), "trials=0 is too small"),
    ],
)
def test_a_wrong_request_is_one_line(outputs, call, said):
    with pytest.raises(torchstone.UsageError) as fault:
        call()
    assert said in str(fault.value)
    assert "\n" not in str(fault.value)


def test_run_takes_a_function(own, capsys):
    words = ["--trials", "2", "--warmup", "1", "--iterations", "3", "--json", "--quiet"]
    assert main(["run", "py:own_functions.py:product", "--option", "size=4", *words]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert case["workload"]["task"] == "call"
    assert case["estimates"]["throughput"]["value"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["py:own_functions.py:load"], "--task infer or --task train"),
        (["--model", "py:own_functions.py:product"], "--task call"),
        (["py:own_functions.py:product", "--option", "size=four"], "size=four is not of type int"),
        (["py:own_functions.py:fails"], "ValueError: no luck"),
        (["py:own_functions.py:produkt"], "Did you mean 'product'?"),
        (["own_functions.py"], "py:own_functions.py:FUNCTION"),
    ],
)
def test_a_mistake_is_exit_2_and_nothing_is_written(own, capsys, words, said):
    assert main(["run", *words, "--trials", "1", "--quiet"]) == 2
    assert said in capsys.readouterr().err
    assert not list(Path("outputs").rglob("*.jsonl"))


def test_the_arguments_of_calls_that_are_gone_are_named(own, capsys):
    only(torchstone.measure(own.on, torch.ones(3), **QUICK))
    (saved,) = Path("outputs/arguments").iterdir()
    saved.unlink()
    words = ["run", "py:own_functions.py:on", "--option", f"saved_arguments={saved}", "--trials", "1", "--quiet"]
    assert main(words) == 2
    assert f"the arguments of its calls are gone: {saved}" in capsys.readouterr().err

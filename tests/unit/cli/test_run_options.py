"""The flags of `run`: what they make of a recipe, and of nothing."""

import pytest

from torchstone.cli._parsing import Parser
from torchstone.cli._run_options import add_run_options, asked
from torchstone.errors import UsageError


def request(*words: str):
    parser = Parser(prog="torchstone run")
    add_run_options(parser)
    return asked(parser.parse_args(list(words)))


def test_nothing_at_all_is_the_demo():
    demo = request()
    assert demo.name == "demo"
    assert {w.task for w in demo.workloads} == {"infer", "train"}
    assert {w.data for w in demo.workloads} == {"manual", "digits"}


@pytest.mark.parametrize("words", [["--task", "train"], ["--axis", "batch_size=2"], ["--data", "digits"]])
def test_half_a_request_is_not_the_demo(words):
    with pytest.raises(UsageError, match="nothing to measure"):
        request(*words)


def test_an_axis_goes_to_the_workloads_that_have_it():
    asked_for = request("demo", "--axis", "optimizer=sgd", "--batch-sizes", "1,2", "4")
    for work in asked_for.workloads:
        assert work.axes["batch_size"] == (1, 2, 4)
        assert ("optimizer" in work.axes) == (work.task == "train")


def test_flags_win_over_the_procedure_of_a_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("task: infer\nmodel: builtin:mlp\nprocedure: {trials: 7, budget: 9s}\n")
    procedure = request(str(file), "--trials", "2", "--target", "5%", "--warmup-budget", "1s").procedure
    assert (procedure.trials, procedure.budget_s, procedure.target, procedure.warmup_budget_s) == (2, 9.0, 0.05, 1.0)


def test_mixed_precision_and_several_devices():
    work = request("--model", "builtin:mlp", "--mixed-precision", "--device", "cpu,cuda:1")
    assert work.device == "cpu,cuda:1"
    assert work.workloads[0].axes["precision"] == ("fp32", "bf16")

"""What to type to take the settings that helped."""

import shlex
from pathlib import Path

import pytest
from build import a_case
from evidences import SETTINGS
from results import WORKERS

from torchstone.cli._parsing import Parser
from torchstone.cli._run_options import request_from
from torchstone.cli.run_command import add_arguments
from torchstone.config.recipe_files import load_request
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.diagnosis import WhatIf
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.plan import sketch
from torchstone.workflows.diagnose.measured_diagnosis import command_for

RECIPE = """
workloads:
  - task: train
    model: builtin:cnn
    data: digits
    axes: {batch_size: [1, 32], threads: 2, num_workers: 0}
  - task: infer
    model: builtin:cnn
"""
ANOTHER = RECIPE.replace("task: infer", "task: train")


def typed_again(command):
    """What `torchstone run` would measure: its workloads, their configurations, and the device."""
    parser = Parser(prog="torchstone run")
    add_arguments(parser)
    request = request_from(parser.parse_args(shlex.split(command)[2:]))
    made = [sketch(workload.excluding(request.exclude)) for workload in request.workloads]
    return [one.workload for one in made], [dict(c) for one in made for c in one.configurations], request.device


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (RECIPE, "torchstone run mine.yaml --task train --device cpu --axis batch_size=1 --axis threads=0 "),
        (ANOTHER, "torchstone run --task train --model builtin:cnn "),
        ("task: train\nmodel: builtin:mlp\n", "torchstone run --task train --model builtin:cnn "),
        (None, "torchstone run --task train --model builtin:cnn "),
    ],
    ids=["its workload", "another beside it", "edited since", "gone"],
)
def test_what_to_type_runs_the_very_case_with_the_settings(tmp_path, monkeypatch, text, begins):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(RECIPE)
    made = sketch(load_request("mine.yaml").workloads[0])
    case = Case(made.workload, {**made.configurations[0], "threads": 0}, Placement("cpu"))
    if text is None:
        Path("mine.yaml").unlink()
    else:
        Path("mine.yaml").write_text(text)
    command = command_for(case, WORKERS, "mine.yaml", Procedure())
    assert command.startswith(begins)
    workloads, configurations, device = typed_again(command)
    assert workloads == [case.workload]
    assert configurations == [{**case.configuration, "num_workers": 4}]
    assert device == "cpu"


def test_a_card_is_named_with_its_number():
    case = a_case({**SETTINGS, "feed": "resident", "pin_memory": True}, placement=Placement("cuda", 1))
    command = command_for(case, WhatIf({"threads": 2}), None, Procedure(settings=None))
    assert "--device cuda:1 " in command
    assert "--axis feed=resident" in command, "who names an axis of a loader would get one"


def test_without_a_recipe_it_is_all_that_does_not_go_without_saying():
    case = a_case(
        {**SETTINGS, "batch_size": 32}, model="py:my net.py:load", data="csv:a b.csv",
        fixed={"argument_depth": 3, "weights": "own"}, data_options={"label": "stars"},
    )  # fmt: skip
    assert command_for(case, WhatIf({"precision": "bf16"}, heap="fixed"), None, Procedure()) == (
        "torchstone run --task train --model 'py:my net.py:load' --option depth=3 --data 'csv:a b.csv' "
        "--data-option label=stars --device cpu --axis batch_size=32 --axis precision=bf16 --axis feed=resident "
        "--heap fixed"
    )


def test_a_loader_of_the_users_own_is_overruled_by_what_was_measured():
    case = a_case({**SETTINGS, "feed": "loader", "num_workers": 0}, model="py:mine.py:load", data="example")
    command = command_for(case, WhatIf({"threads": 2}), None, Procedure())
    assert "--axis num_workers=0" in command, "its own may have workers"


def test_the_way_it_was_measured_is_said_where_it_was_asked_for():
    how = Procedure(seed=3, isolation="spawn", heap="default", settings="torch", trials=9)
    command = command_for(a_case(SETTINGS), WhatIf({"threads": 2}), None, how)
    assert command.endswith("--axis threads=2 --seed 3 --isolation spawn --heap default --settings torch")
    assert command_for(a_case(SETTINGS), WhatIf({}, heap="fixed"), None, how).count("--heap") == 1

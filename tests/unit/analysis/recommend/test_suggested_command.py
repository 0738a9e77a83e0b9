"""The command that is advised measures the very workload that it was made from."""

import shlex

import msgspec
import pytest
from stored import a_stored_run, machine, store

from torchstone.analysis.recommend.candidates import run_command
from torchstone.cli._parsing import Parser
from torchstone.cli._run_options import request_from
from torchstone.cli.run_command import add_arguments
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution.plan import sketch
from torchstone.storage.measured import stored_cases

ASKS = [
    WorkloadRequest(
        "train", "builtin:cnn", "digits", axes={"batch_size": (4,), "precision": ("bf16",), "learning_rate": (3e-4,)}
    ),
    WorkloadRequest(
        "train", "builtin:cnn", "digits", {"classes": 10}, {"num_workers": (2,)}, data_options={"limit": 64}
    ),
]


@pytest.mark.parametrize("ask", ASKS)
def test_it_is_the_same_case(outputs, ask):
    made = sketch(ask)
    case = Case(made.workload, made.configurations[0], Placement("cpu"))
    store(outputs, [a_stored_run(1, [(case, 100.0)], machine())])
    (one,) = stored_cases(outputs, ("throughput",)).measured
    assert one.case_id == case.case_id
    command = run_command(one, {"batch_size": [case.configuration["batch_size"], 512]})
    parser = Parser(prog="torchstone run")
    add_arguments(parser)
    request = request_from(parser.parse_args(shlex.split(command)[2:]))
    (again,) = [sketch(workload) for workload in request.workloads]
    ids = [Case(again.workload, configuration, Placement("cpu")).case_id for configuration in again.configurations]
    assert ids[0] == case.case_id
    assert len(ids) == 2
    assert request.procedure.trials == 5


def test_pretrained_weights_and_arguments_of_a_users_function_are_named(outputs):
    made = sketch(WorkloadRequest("infer", "builtin:cnn"))
    fixed = {"weights": "pretrained", "argument_depth": 3}
    workload = msgspec.structs.replace(made.workload, fixed=fixed)
    store(outputs, [a_stored_run(1, [(Case(workload, made.configurations[0], Placement("cpu")), 9.0)], machine())])
    (one,) = stored_cases(outputs, ("throughput",)).measured
    assert "--option weights=pretrained --option depth=3" in run_command(one, {})

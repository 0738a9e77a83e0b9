"""A diagnosis as it is told: in both reports, as JSON, and as a command to type."""

import shlex
from pathlib import Path

import msgspec
import pytest
from build import a_case, a_run, a_sweep, a_trial
from evidences import SETTINGS, an_evidence
from results import FED, GAIN, SWEEP, WORKERS
from results import with_its_run as a_diagnosis

from torchstone.cli._parsing import Parser
from torchstone.cli._run_json import diagnosis_json
from torchstone.cli._run_options import asked
from torchstone.cli.run_command import add_arguments
from torchstone.config.recipe_files import load_request
from torchstone.core.errors import MissingError
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import Tried, WhatIf
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.execution.plan import sketch
from torchstone.report.diagnosis_text import write_reports
from torchstone.report.diagnosis_wording import limit_words
from torchstone.report.documents import bottleneck_report as bottlenecks
from torchstone.report.documents.performance_report import of_diagnosis
from torchstone.report.renderers.md import markdown
from torchstone.workflows.diagnose.short_of_memory import out_of_memory
from torchstone.workflows.diagnose.suggested_command import command_for


def bottleneck_report(diagnosis):
    return markdown(bottlenecks.bottleneck_report(diagnosis))


def performance_report(diagnosis, summary):
    return markdown(of_diagnosis(diagnosis, summary))


def test_what_helped_is_told_in_the_words_of_a_program_too():
    evidence = an_evidence(facts={"threads_in_effect": 16, "fused_optimizer": True})
    helped = Tried("threads", WhatIf({"threads": 2}, "x"), Judgement.BETTER, GAIN)
    diagnosis, _ = a_diagnosis(evidence, tried=(helped,), applied=helped)
    assert "- In code of your own: OMP_NUM_THREADS=2" in bottleneck_report(diagnosis)


def test_the_bottleneck_report_has_causes_figures_and_what_to_type():
    diagnosis, _ = a_diagnosis(command="torchstone run mine.yaml --axis num_workers=4")
    text = bottleneck_report(diagnosis)
    assert text.startswith("# Bottleneck report: mine\n")
    assert "## 1. the step waits for the loader, and the loader for its source" in text
    assert "- Usual causes: slow disk, too few workers, costly preprocessing." in text
    assert "| num_workers=4 | 3.82 [3.70, 3.94] | 1.12 GiB (+12 %) | the same |" in text
    assert "```\ntorchstone run mine.yaml --axis num_workers=4\n```" in text


def test_the_performance_report_has_pattern_questions_and_checklist():
    diagnosis, summary = a_diagnosis()
    text = performance_report(diagnosis, summary)
    assert "| 512 | ok | " in text
    assert "## On cuda:0 (" in text
    assert "a step costs about 10.0 ms whatever its size" in text
    assert "- is the I/O time high? yes, 90 % of the step" in text
    assert "- is the utilization low? not known" in text
    assert "- [x] batch sizes compared: 8, 32, 128, 512" in text
    assert "- [ ] num_workers compared: 0 (tune --only num_workers)" in text
    assert "usual 60 to 80 %" in text
    assert "(I/O). See bottleneck_report.md." in text


def test_a_case_that_was_recorded_with_its_latency_window_has_its_table():
    both = [({**settings, "mode": "both"}, step_s) for settings, step_s in SWEEP]
    diagnosis, summary = a_diagnosis(run=a_sweep(both, phases=FED))
    alone = msgspec.structs.replace(
        diagnosis.case, configuration={**diagnosis.case.configuration, "mode": "throughput"}
    )
    text = performance_report(msgspec.structs.replace(diagnosis, case=alone), summary)
    assert "## On cuda:0 (" in text


def test_what_runs_out_of_memory_has_no_share_of_a_step():
    cause = out_of_memory(a_case(SETTINGS), a_trial(status=Status.OUT_OF_MEMORY, measurements=()))
    assert limit_words(cause) == "no step came to its end"


def test_a_case_without_figures_still_has_its_reports():
    diagnosis, summary = a_diagnosis(run=a_run([]), tried=(), applied=None)
    assert "## On " not in performance_report(diagnosis, summary)
    assert bottleneck_report(diagnosis)


def test_names_cannot_break_the_page():
    diagnosis, _ = a_diagnosis(about="a|b\n# <script>")
    assert bottleneck_report(diagnosis).startswith("# Bottleneck report: a\\|b \\# \\<script\\>\n")


def test_reports_that_cannot_be_written_say_so(tmp_path):
    (tmp_path / "file").write_text("")
    diagnosis, summary = a_diagnosis()
    with pytest.raises(MissingError, match="cannot be written"):
        write_reports(tmp_path / "file" / "x", diagnosis, summary)


def test_json_has_the_bound_of_each_cause():
    diagnosis, _ = a_diagnosis()
    found = msgspec.json.decode(msgspec.json.encode(diagnosis_json(diagnosis)))
    assert found["causes"][0]["bound"]["high"] >= found["causes"][0]["bound"]["value"] > 1.0
    assert found["applied"]["what_if"]["settings"] == {"num_workers": 4}


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
    request = asked(parser.parse_args(shlex.split(command)[2:]))
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
    command = command_for(case, WhatIf({"threads": 2}, ""), None, Procedure(settings=None))
    assert "--device cuda:1 " in command
    assert "--axis feed=resident" in command, "who names an axis of a loader would get one"


def test_without_a_recipe_it_is_all_that_does_not_go_without_saying():
    case = a_case(
        {**SETTINGS, "batch_size": 32}, model="py:my net.py:load", data="csv:a b.csv",
        fixed={"argument_depth": 3, "weights": "own"}, data_options={"label": "stars"},
    )  # fmt: skip
    assert command_for(case, WhatIf({"precision": "bf16"}, "", heap="fixed"), None, Procedure()) == (
        "torchstone run --task train --model 'py:my net.py:load' --option depth=3 --data 'csv:a b.csv' "
        "--data-option label=stars --device cpu --axis batch_size=32 --axis precision=bf16 --axis feed=resident "
        "--heap fixed"
    )


def test_a_loader_of_the_users_own_is_overruled_by_what_was_measured():
    case = a_case({**SETTINGS, "feed": "loader", "num_workers": 0}, model="py:mine.py:load", data="example")
    command = command_for(case, WhatIf({"threads": 2}, ""), None, Procedure())
    assert "--axis num_workers=0" in command, "its own may have workers"


def test_the_way_it_was_measured_is_said_where_it_was_asked_for():
    how = Procedure(seed=3, isolation="spawn", heap="default", settings="torch", trials=9)
    command = command_for(a_case(SETTINGS), WhatIf({"threads": 2}, ""), None, how)
    assert command.endswith("--axis threads=2 --seed 3 --isolation spawn --heap default --settings torch")
    assert command_for(a_case(SETTINGS), WhatIf({}, "", heap="fixed"), None, how).count("--heap") == 1

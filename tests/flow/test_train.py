"""`torchstone train`: whole epochs, from the first step on, beside what a tune predicted."""

import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from build import a_machine, a_run, a_trial

from torchstone import machine_facts, plan
from torchstone.cli import main
from torchstone.config.applying import plan_changes, write
from torchstone.config.recipes import load_request
from torchstone.store.record import RecordWriter
from torchstone.terms.answer import Answer, Choice, Quest
from torchstone.terms.case import Case, Placement
from torchstone.terms.estimate import Estimate
from torchstone.terms.run import Answered

EXAMPLE = Path(__file__).parents[2] / "examples" / "tune.yaml"
SETTINGS = {"batch_size": 256, "num_workers": 1, "learning_rate": 1e-3}


def predict(outputs, epoch_s):
    """Store a tune that recommends SETTINGS for the example."""
    (own,) = load_request(EXAMPLE).workloads
    case = Case(plan.sketch(plan.Ask(own.task, own.model, own.data)).workload, SETTINGS, Placement("cpu"))
    choice = Choice(case.case_id, SETTINGS, 3)
    answer = Answer(
        choice, choice, None, (), None, None, Estimate(epoch_s, None, None, 0.95, "s", "t", 3, 300), SETTINGS, (), 1.0,
        None, 1, 1,
    )  # fmt: skip
    run = a_run([a_trial(case_id=case.case_id)], cases=[case], machine=a_machine(host=machine_facts.host()))
    quest = Quest("throughput", "adaptive", case, {name: (value,) for name, value in SETTINGS.items()})
    with RecordWriter(
        outputs / "records" / "tuned.jsonl", msgspec.structs.replace(run.head, run_id="tuned", quest=quest)
    ) as writer:
        for trial in run.trials:
            writer.append(trial)
        writer.append(Answered(answer))


def test_two_epochs_with_the_settings_that_were_applied(tmp_path, outputs, capfd, refused):
    path = Path(shutil.copy(EXAMPLE, tmp_path / "mine.yaml"))
    write(plan_changes(path, SETTINGS))
    predict(outputs, 4.0)
    assert main(["train", str(path), "--epochs", "2", "--axis", "image_size=8", "--device", "cpu"]) == 0
    said = capfd.readouterr()
    assert "1 trial a case, 2 epochs from the first step on" in said.out
    epoch = re.search(r"epoch +([\d.]+ m?s) each, 2 epochs: 14 steps, 3,584 items, the first step's", said.out)
    assert epoch, said.out
    assert re.search(r"predicted +4\.00 s by tune tuned; without the first step it took [\d.]+ times that", said.out)
    assert re.search(r"loss +2\.\d+ → [\d.]+", said.out)
    assert re.search(r"rate +[\d,.]+ images/s", said.out)

    (record,) = [p for p in (outputs / "records").glob("*.jsonl") if p.stem != "tuned"]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert lines[0]["procedure"]["epochs"] == 2
    (trial,) = [line for line in lines if line["record"] == "trial"]
    values = {m["metric"]: m["values"] for m in trial["measurements"] if m["stage"] == "steady"}
    assert values["items"] == [256.0] * 13, "one step of the fourteen is the first"
    assert len(values["loss"]) == 14
    assert trial["facts"]["warmup_steps"] == 0
    (case,) = lines[0]["plan"]["cases"]
    assert case["configuration"]["feed"] == "loader"
    assert {name: case["configuration"][name] for name in SETTINGS} == SETTINGS

    assert main(["show", record.stem, "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown["cases"][0]["estimates"]["epoch_time_s"]["value"] > 0
    advice = [f["advice"] for f in shown["cases"][0]["findings"] if f["check"] == "few_trials"]
    assert advice == ["a training is one trial; torchstone run measures the same settings in 3"]
    assert record.stem in refused("resume", record.stem)


def test_a_training_that_does_not_end_well_exits_1_and_says_why(capfd):
    words = ("train", "--model", "builtin:cnn", "--data", "digits", "--batch-sizes", "1000", "--device", "cpu")
    assert main([*words, "--axis", "image_size=8", "--quiet"]) == 1
    assert "1797 items make 1 steps of 1000; 2 are the least" in capfd.readouterr().out


CNN = ("train", "--model", "builtin:cnn")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*CNN], ["synthetic has no end", "--data", "--steps N"]),
        ([*CNN, "--data", "digits", "--batch-sizes", "8,32"], ["one value of batch_size", "8, 32", "torchstone tune"]),
        (["train", "cnn", "--axis", "precision=fp32,bf16"], ["one value of precision", "--axis precision=fp32"]),
        (["train", "smoke"], ["task of this recipe 'train'", "infer"]),
        ([*CNN, "--epochs", "0"], ["--epochs 0", "1 or more"]),
        ([*CNN, "--steps", "0"], ["--steps 0", "1 or more"]),
        ([*CNN, "--epochs", "1", "--steps", "5"], ["--epochs or --steps"]),
        ([*CNN, "--trials", "3"], ["--trials", "train --help"]),
    ],
    ids=lambda value: " ".join(value[-2:]) if value and isinstance(value, list) else None,
)
def test_what_is_no_training_is_refused_in_one_line(refused, words, said):
    line = refused(*words)
    for part in said:
        assert part in line

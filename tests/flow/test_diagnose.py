"""`torchstone diagnose` through the real CLI: a training with a planted bottleneck, a stored run, and bad input."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from warm_templates import TORCHSTONE

from torchstone.cli import main
from torchstone.core.schema.trial import Purpose
from torchstone.storage.query import read_run

pytestmark = pytest.mark.xdist_group("diagnose")  # one measurement serves all its tests

SLOW = """
import time
import torch

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(8) * index, index % 2

def loss(output, target):
    time.sleep(0.004)
    return torch.nn.functional.cross_entropy(output, target)

def load():
    torch.manual_seed(0)
    return torch.nn.Linear(8, 2), Items(), loss
"""

RECIPE = """
task: train
model: py:slow.py:load
procedure:
  budget: 400ms
  warmup_budget: 100ms
axes:
  batch_size: 8
  num_workers: 0
"""


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory) -> tuple[Any, str, Path]:
    """One diagnosis of a slow loader, with a budget for one what-if: its document, what it said, the folder."""
    folder = tmp_path_factory.mktemp("diagnosed")
    (folder / "slow.py").write_text(SLOW)
    (folder / "train.yaml").write_text(RECIPE)
    answer = subprocess.run(
        [*TORCHSTONE, "diagnose", "train.yaml", "--device", "cpu", "--axis", "threads=1",
         "--budget", "15s", "--apply", "train.yaml", "--disturbed", "keep", "--json", "--output-dir", "outputs"],
        capture_output=True, text=True, timeout=240, check=False, cwd=folder,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout), answer.stderr, folder


def test_the_planted_cause_is_named_first_with_its_line(diagnosed):
    run, said, _ = diagnosed
    first = run["answer"]["causes"][0]
    assert first["id"] == "loader_waits"
    assert first["share"] > 0.6
    assert any(place["code"] == "time.sleep(0.002)" and place["file"].endswith("slow.py") for place in first["where"])
    assert "first suspect: the step waits for the loader, and the loader for its source" in said


def test_the_remedy_was_measured_before_it_is_offered(diagnosed):
    run, _, folder = diagnosed
    applied = run["answer"]["applied"]
    assert applied["verdict"] == "better"
    assert applied["gain"]["low"] > 1.0
    assert applied["what_if"]["settings"]["num_workers"] > 0
    assert applied["loss"]["id"] == "loss_same"
    words = run["answer"]["command"].split()
    assert words[:5] == ["torchstone", "run", "train.yaml", "--device", "cpu"]
    assert {"batch_size=8", "threads=1", f"num_workers={applied['what_if']['settings']['num_workers']}"} <= set(words)
    record = read_run(Path(run["record"]) if Path(run["record"]).is_absolute() else folder / run["record"])
    assert {trial.purpose for trial in record.trials} == {Purpose.PROBE}


def test_what_helped_is_in_the_file(diagnosed):
    run, _, folder = diagnosed
    workers = run["answer"]["applied"]["what_if"]["settings"]["num_workers"]
    assert f"num_workers: {workers}" in (folder / "train.yaml").read_text()
    assert "num_workers: 0" in (folder / "train.yaml.bak").read_text()


def test_the_page_its_record_and_its_json_say_the_same(diagnosed, capfd):
    run, _, folder = diagnosed
    first, applied = run["answer"]["causes"][0], run["answer"]["applied"]
    assert main(["show", "latest", "--full", "--output-dir", str(folder / "outputs")]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    page = (folder / run["report"]).read_text()
    assert page.startswith("# Diagnosis of train")
    assert "Slow training: three questions" in page
    said = [first["title"]["text"], *(one["text"] for one in first["evidence"])]
    said += [f"{one['file']}:{one['line']}" for one in first["where"]]
    gain = applied["gain"]
    known = max(gain["high"] - gain["value"], gain["value"] - gain["low"]) <= 0.5 * gain["value"]
    said += [f"num_workers={applied['what_if']['settings']['num_workers']}", *([f"{gain['value']:.2f}"] * known)]
    for one in said:
        assert one.lower() in " ".join(page.replace("\\", "").split()).lower(), one
        assert one.lower() in shown.lower(), one


def test_a_run_of_another_machine_is_read_and_not_measured(diagnosed, capfd, outputs):
    run, _, folder = diagnosed
    text = (folder / run["record"]).read_bytes().split(b"\n")
    head = msgspec.json.decode(text[0])
    head["machine"]["host"]["hostname"] = "elsewhere"
    there = outputs.parent / "there.jsonl"
    there.write_bytes(b"\n".join([msgspec.json.encode(head), *text[1:]]))
    assert main(["diagnose", str(there), "--output-dir", str(outputs)]) == 0
    said = capfd.readouterr()
    told = " ".join(said.out.split())
    assert "from its record alone: it was recorded on another machine" in told
    assert told.startswith("The step waits for the loader")
    assert "remedy speed-up" not in told, "the table of what was measured"
    assert not (outputs / "records").exists() or not list((outputs / "records").iterdir())


def test_bad_requests_are_refused(refused):
    assert "no run is stored here yet" in refused("diagnose")
    assert "'nothing'" in refused("diagnose", "nothing")
    assert "--budget" in refused("diagnose", "smoke", "--task", "train", "--budget", "soon")
    assert "choose with --task" in refused("diagnose", "families")
    assert "--case selects a case of a stored run" in refused("diagnose", "smoke", "--case", "abc")
    assert "read as a stored run" in refused("diagnose", "latest", "--axis", "batch_size=2")
    assert "--task needs a recipe" in refused("diagnose", "latest", "--task", "train")
    assert "--seed needs a recipe" in refused("diagnose", "--seed", "0")
    assert "--heap needs a recipe" in refused("diagnose", "latest", "--heap", "default")
    assert "task load has no step" in refused("diagnose", "--model", "builtin:cnn", "--task", "load")
    assert "no such file" in refused("diagnose", "--model", "builtin:cnn", "--apply", "missing.yaml").lower()

"""What feeds the step by default: real data come through their loader, as people's own code makes it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warm_templates import TORCHSTONE

from torchstone.cli import main

PROJECT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(8) * index, index % 2

class Flow(IterableDataset):
    def __iter__(self):
        return (Slow()[n] for n in range(64))

def joined(rows):
    return torch.stack([x for x, _ in rows]), torch.tensor([y for _, y in rows])

def of(data):
    torch.manual_seed(0)
    return nn.Linear(8, 2), data, nn.CrossEntropyLoss()

def dataset():
    return of(Slow())

def loader():
    return of(DataLoader(Slow(), batch_size=4, num_workers=2, shuffle=True))

def collated():
    return of(DataLoader(Slow(), batch_size=8, collate_fn=joined))

def flow():
    return of(Flow())

def batches():
    return of([(torch.ones(4, 8), torch.arange(4) % 2)] * 3)

def example():
    return of((torch.ones(4, 8), torch.arange(4) % 2))
"""
# Data sleeps, so that it costs most of the step on a busy machine, too. One thread: others test beside this.
QUICK = ("--device", "cpu", "--axis", "threads=1", "--trials", "1", "--budget", "200ms", "--warmup-budget", "100ms")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "mine.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measured(capsys, name: str, *words: str, task: str = "train") -> Any:
    capsys.readouterr()
    code = main(["run", "--task", task, "--model", f"py:mine.py:{name}", *QUICK, "--json", *words])
    said = capsys.readouterr()
    assert code == 0, said.err
    (case,) = json.loads(said.out)["cases"]
    return case


def settings_of(case: Any) -> tuple[Any, ...]:
    return tuple(case["configuration"][axis] for axis in ("feed", "batch_size", "num_workers"))


@pytest.mark.parametrize(
    ("name", "settings", "least_share", "data", "feed"),
    [
        ("dataset", ("loader", 16, 0), 0.5, "the Slow of dataset()", "feed loader, num_workers 0"),
        ("loader", ("loader", 4, 2), None, "the DataLoader of loader()", "feed loader, num_workers 2"),
        ("collated", ("loader", 8, 0), 0.8, "the DataLoader of collated()", "feed loader, num_workers 0"),
        ("flow", ("loader", 1, 0), 0.5, "the Flow of flow()", "feed loader, num_workers 0"),
        ("batches", ("loader", 4, 0), None, "the list of batches()", "feed loader, num_workers 0"),
        ("example", ("resident", 4, 0), None, "the example batch", "feed resident"),
    ],
)
def test_training_is_fed_as_the_users_code_feeds_it_and_the_table_says_how(
    project, capsys, name, settings, least_share, data, feed
):
    case = measured(capsys, name)
    assert settings_of(case) == settings
    if least_share is not None:
        assert case["estimates"]["phase_data_s"]["value"] >= 0.002 * settings[1]
        assert case["estimates"]["data_wait_share"]["value"] > least_share
    if name == "loader":
        assert case["trials"][0]["facts"]["warmup_steps"] >= 4, "2 workers, 2 batches each: the queue is drained first"
    assert main(["show", "latest"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"data {data} " in shown
    assert feed in shown


@pytest.mark.long
def test_inference_is_about_the_model_and_who_asks_for_resident_batches_gets_them(project, capsys):
    assert settings_of(measured(capsys, "loader", task="infer")) == ("resident", 4, 0)
    assert settings_of(measured(capsys, "loader", "--axis", "feed=resident")) == ("resident", 4, 0)
    main(["show", "latest"])
    said = " ".join(capsys.readouterr().out.split())
    assert "data the DataLoader of loader() " in said
    assert "feed resident (loading not measured)" in said


def test_workers_of_batches_that_come_as_they_are_are_refused_before_anything_is_written(project, refused):
    words = ("--task", "train", "--model", "py:mine.py:batches", "--device", "cpu", "--axis", "num_workers=0,2")
    assert "num_workers=2 not possible: batches of a list are used as they come" in refused("run", *words)


def command(project: Path, *words: str) -> tuple[Any, str]:
    answer = subprocess.run(
        [*TORCHSTONE, *words, "--device", "cpu", "--axis", "threads=1", "--json"],
        capture_output=True, text=True, timeout=240, check=False, cwd=project,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout), answer.stderr


def test_a_tune_of_a_data_set_of_ones_own_tunes_its_workers(project):
    run, said = command(
        project, "tune", "--task", "train", "--model", "py:mine.py:collated", "--axis", "precision=fp32",
        "--axis", "batch_size=8", "--axis", "num_workers=0,2", "--budget", "200ms", "--warmup-budget", "100ms",
        "--trials", "2", "--probes", "6",
    )  # fmt: skip
    assert "loader-only throughput" in said
    assert "no loader to tune" not in said
    answer = run["answer"]
    assert answer["present"]["point"]["num_workers"] == 0, "what the user's loader has"
    assert answer["settings"]["num_workers"] in (0, 2)
    assert any("the loader delivers" in reason["text"] for reason in answer["why"])
    assert {case["configuration"].get("feed", "loader") for case in run["cases"]} <= {"loader", "resident"}


def test_diagnose_names_the_loader_of_a_slow_data_set_first_with_its_share_and_tries_workers(project):
    run, _ = command(project, "diagnose", "--task", "train", "--model", "py:mine.py:dataset", "--budget", "8s",
                     "--disturbed", "keep")  # fmt: skip
    found = run["answer"]
    first = found["causes"][0]
    assert first["id"] == "loader_waits"
    assert first["share"] > 0.5
    assert "Slow" in str(found["fed"].values())
    tried = [one["what_if"]["settings"] for one in found["tried"] if one["cause"] == "loader_waits"]
    assert any("num_workers" in settings for settings in tried)

"""A package of a third party, really installed: its model, its data and its check through the real command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("plugins")  # one measurement serves all its tests

PACKAGE = Path(__file__).parents[2] / "examples" / "torchstone-example-plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package in it, as pip puts it there; beside it a broken one, and one in our place."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("installed")
    own = tmp_path_factory.mktemp("source") / "package"  # a build leaves files behind
    source = shutil.copytree(PACKAGE, own)
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    words += ["--target", str(folder), str(source)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    broken = [f"[torchstone.{family}]\nbroken = no_such_module:PLUGIN\n" for family in ("models", "data", "engines")]
    usurper = "[torchstone.data]\nsynthetic = torchstone_example.waves:PLUGIN\n"
    for name, points in (("broken", "".join(broken)), ("usurper", usurper)):
        about = folder / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(points)
    return folder


@pytest.fixture
def typed(installed, outputs):
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "160"}
        command = [sys.executable, "-m", "torchstone", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)

    return run


def test_what_it_brings_is_measured_beside_plugins_that_do_not_work(typed):
    done = typed(
        "run", "--task", "train", "--model", "small", "--data", "waves:64", "--axis", "batch_size=8,12",
        "--axis", "sequence_length=16", "--trials", "1", "--iterations", "3", "--strict", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    eight, twelve = found["cases"]
    assert (eight["workload"]["model"], eight["workload"]["data"]) == ("tower:small", "waves:64")
    assert eight["workload"]["family"] == "example"
    assert eight["estimates"]["throughput"]["value"] > 0
    said = [f["message"] for case in (eight, twelve) for f in case["findings"] if f["check"] == "odd_batch"]
    assert said == ["batch_size=12 is no multiple of 8"]


def test_the_lists_show_it_and_say_why_others_are_not_used(typed):
    lists = json.loads(typed("list", "--json").stdout)
    of = {what: {row["name"]: row["meaning"] for row in rows} for what, rows in lists.items()}
    assert "two layers of 16" in of["models"]["tower:small"]
    assert "builtin:cnn" in of["models"]
    assert of["data"]["waves"] == "example: noisy sine waves in 3 classes, waves:N"
    assert "no multiple of 8" in of["checks"]["odd_batch"]
    why = "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
    assert of["data"]["broken"] == f"data source broken of package broken 1.0 {why}"
    meanings = [row["meaning"] for row in lists["data"] if row["name"] == "synthetic"]
    assert len(meanings) == 2
    assert meanings[1] == "of package usurper 1.0 is not used: torchstone's own data source has this name"


def test_using_one_that_does_not_import_is_one_line(typed, outputs):
    done = typed("run", "--model", "broken:net")
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "model source broken of package broken 1.0 cannot be imported" in line
    assert not list(outputs.rglob("*.jsonl"))

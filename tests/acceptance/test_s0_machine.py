"""Seed 0: the whole suite by one command, the machine, the tips for accurate figures, trouble, and CI."""

import fnmatch
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from acceptance.printed_files import printed
from build import a_machine, a_trial
from ruamel.yaml import YAML

from torchstone.core.figures import figures
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.execution import plan

ROOT = Path(__file__).parents[2]
CARDS = tuple(
    DeviceInfo("rocm", "cuda", "AMD", index, "Radeon RX 7900 XTX", memory_bytes=24 * 2**30, compute_capability="11.0")
    for index in range(2)
)
# From a batch of 4 on it asks for more memory than any host has: the allocator refuses at once, for real.
NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        if len(x) >= 4:
            torch.empty(10**13 * len(x))
        return self.layer(x)

def load():
    return Net(), torch.randn(1, 4)
"""
KEEPS_A_CORE_BUSY = "import time\nends = time.monotonic() + 300\nwhile time.monotonic() < ends: pass"


@pytest.mark.long
def test_one_command_finds_the_device_trains_infers_and_saves_json(desk):
    desk.claimed("S0-01")
    document = desk.type("torchstone show suite --json").document
    assert [case["workload"]["task"] for case in document["cases"]] == ["infer", "infer", "train"]
    assert {t["outcome"]["status"] for case in document["cases"] for t in case["trials"]} == {"ok"}
    kinds = {device["kind"] for device in document["machine"]["devices"]}
    used = {case["placement"]["device"] for case in document["cases"]}
    assert used == (kinds - {"cpu"} or {"cpu"}), "auto takes an accelerator where there is one"
    (path,) = (desk.folder / "outputs").glob("benchmark_*.json")
    assert {t["record"] for t in json.loads(path.read_text())["trials"]} == {"trial"}


def test_the_vendor_is_found(desk):
    machine = desk.claimed("S0-02").document["machine"]
    assert machine["devices"][-1 if len(machine["devices"]) > 1 else 0]["vendor"]
    here = a_machine(devices=CARDS)
    assert plan.place("auto", Inspected(CARDS, {}, {}), here) == Placement("rocm", 0)


def test_what_the_machine_is(desk):
    machine = desk.claimed("S0-36").document["machine"]
    assert machine["host"]["platform"] == platform.platform()
    assert machine["software"]["torch"] == torch.__version__
    assert machine["software"]["cuda"] == torch.version.cuda
    assert machine["software"]["rocm"] == torch.version.hip
    for device in machine["devices"]:
        assert {"vendor", "name", "memory_bytes", "compute_capability", "index", "driver", "runtime"} <= set(device)
        assert device["name"]
    processor = next(device for device in machine["devices"] if device["kind"] == "cpu")
    assert processor["memory_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.long
def test_a_certain_card_is_taken_or_the_line_says_what_is_here(desk):
    have = desk.type("torchstone machine --json").document["machine"]["devices"]
    if any(device["kind"] == "cuda" and device["index"] == 1 for device in have):
        assert {case["placement"]["index"] for case in desk.claimed("S0-63").document["cases"]} == {1}
    else:
        said = desk.type("torchstone run smoke --device cuda:1 --json", code=2).err
        assert said.startswith("torchstone: device cuda:1 not found: ")
        assert f"Found: cpu:0 {have[0]['name']}" in said
    assert plan.place("rocm:1", Inspected(CARDS, {}, {}), a_machine(devices=CARDS)) == Placement("rocm", 1)


def test_device_memory_in_the_words_of_the_seed():
    names = ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes")
    told = [Measurement(name, Stage.STEADY, (float(i + 1),)) for i, name in enumerate(names)]
    got = figures(a_trial(more=told)).values
    assert [got[name] for name in names] == [1.0, 2.0, 3.0]


def test_the_checks_of_exclusivity_and_heat_are_there(desk):
    said = desk.claimed("S0-56").out
    words = {
        "neighbours": "disturbed by other programs",
        "other_processes": "on the device",
        "throttled": "heat or power",
    }
    assert all(re.search(rf"^  {name} .*{told}", said, re.MULTILINE) for name, told in words.items())
    assert re.search(r"^  drift ", said, re.MULTILINE)


@pytest.mark.long
def test_a_neighbour_and_too_few_steps_are_named_with_what_to_type(desk):
    beside = subprocess.Popen([sys.executable, "-c", KEEPS_A_CORE_BUSY])
    try:
        document = desk.claimed("S0-61").document
    finally:
        beside.kill()
        beside.wait()
    found = {one["check"]: one for one in document["cases"][0]["findings"]}
    assert found["few_trials"]["advice"] == "measure again with --trials 3"
    assert found["few_samples"]["advice"] == "measure again with --iterations 20"
    cores = float(re.findall(r"up to ([\d.]+) CPU cores", found["neighbours"]["message"])[0])
    assert 0.3 < cores <= (os.cpu_count() or 1)
    assert document["cases"][0]["verdict"] == "SUSPECT"


@pytest.mark.long
def test_out_of_memory_is_marked_advised_on_and_not_tried_larger(desk):
    desk.write("network.py", NETWORK)
    document = desk.claimed("S0-60").document
    cases = {case["configuration"]["batch_size"]: case for case in document["cases"]}
    ends = {size: [t["outcome"]["status"] for t in case["trials"]] for size, case in cases.items()}
    assert ends[1] == ends[2] == ["ok"]
    assert (ends[4], ends[8]) == (["out_of_memory"], ["skipped"])
    for size in (4, 8):
        (found,) = [one for one in cases[size]["findings"] if one["check"] == "out_of_memory"]
        assert found["message"].endswith("; 2 fitted")
        assert re.match(r"try --axis batch_size=2, then", found["advice"]), "the one that fitted"
    shown = desk.type("torchstone show large").out
    assert re.search(r"^ +4 .* OOM", shown, re.MULTILINE)


@pytest.mark.long
def test_any_folder_does(desk):
    desk.claimed("S0-59")
    assert (desk.folder / "elsewhere/benchmark").is_dir()
    assert not list(desk.folder.glob("scripts")), "nothing of the project lies here"
    (path,) = (desk.folder / "elsewhere/benchmark").glob("benchmark_cpu_*.json")
    assert json.loads(path.read_text())["head"]["name"] == "smoke"


def test_the_ci_recipe_keeps_the_json_of_a_gpu_runner(desk):
    seed, ours = (YAML(typ="safe").load(text) for text in (
        printed("s0_benchmark.yml"), (ROOT / ".github/workflows/benchmark.yml").read_text(encoding="utf-8")
    ))  # fmt: skip
    theirs, job = seed["jobs"]["benchmark"], ours["jobs"]["benchmark"]
    assert job["runs-on"] == theirs["runs-on"] == ["self-hosted", "gpu"]
    kept = [step["with"]["path"] for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact")]
    assert kept == [step["with"]["path"] for step in theirs["steps"] if "upload-artifact" in step.get("uses", "")]
    desk.claimed("S0-59")
    written = [path.name for path in (desk.folder / "elsewhere/benchmark").iterdir()]
    assert fnmatch.filter(written, Path(kept[0]).name), "what a run writes is what the recipe keeps"
    assert any("torchstone run" in step.get("run", "") for step in job["steps"])

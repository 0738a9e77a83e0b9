"""Several ranks by the command line, a file and the API: what is measured, and what is refused in one line."""

import json
import os
import subprocess
import sys

import pytest
from warm_templates import TORCHSTONE

import torchstone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked")
SHORT = ["--trials", "2", "--iterations", "5", "--warmup", "2", "--device", "cpu"]


def run(folder, *words):
    return subprocess.run(
        [*TORCHSTONE, "run", *words], capture_output=True, text=True, timeout=150, check=False,
        env=os.environ | {"TORCHSTONE_OUTPUT": str(folder)},
    )  # fmt: skip


def test_a_file_with_distributed_configs_trains_in_as_many_processes(outputs, tmp_path):
    file = tmp_path / "training_config.json"
    configs = [{"world_size": 1, "backend": "gloo"}, {"world_size": 2, "backend": "gloo"}]
    file.write_text(json.dumps({"model": "builtin:mlp", "batch_sizes": [4], "distributed_configs": configs}))
    done = run(outputs, "--config", str(file), *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    cases = {case["configuration"]["world_size"]: case for case in json.loads(done.stdout)["cases"]}
    assert {size: case["placement"]["count"] for size, case in cases.items()} == {1: 1, 2: 2}
    one, two = cases[1], cases[2]
    assert (one["configuration"]["strategy"], two["configuration"]["strategy"]) == ("none", "ddp")
    assert all(t["facts"]["effective_batch_size"] == 8 and t["facts"]["ranks"] == 2 for t in two["trials"])
    assert two["estimates"]["total_items"]["value"] == 5 * 2 * 4
    assert {"communication_time_s", "exposed_communication_s", "slowest_rank_excess"} <= set(two["estimates"])
    shown = subprocess.run(
        [*TORCHSTONE, "show"], capture_output=True, text=True, timeout=60, check=True,
        env=os.environ | {"TORCHSTONE_OUTPUT": str(outputs)},
    )  # fmt: skip
    assert "Ranks: train builtin:mlp on cpu" in shown.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--axis", "world_size=2", "--axis", "backend=nccl"], "backend=nccl does not work on cpu: backend=gloo"),
        (["--axis", "world_size=2", "--axis", "strategy=none"], "strategy=none trains in one process, not in 2"),
        (["--axis", "world_size=0"], "axis world_size: '0' is too small"),
        (["--axis", "strategy=fsdp"], "Did you mean 'fsdp2'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(outputs, words, says):
    refused = run(outputs, "--model", "builtin:mlp", "--task", "train", *words, *SHORT)
    assert refused.returncode == 2
    assert says in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
    assert not list(outputs.rglob("*.jsonl"))


def test_ranks_are_for_training(outputs):
    refused = run(outputs, "--model", "builtin:mlp", "--task", "infer", "--axis", "world_size=2", *SHORT)
    assert refused.returncode == 2
    assert "axis world_size does not apply to task infer" in refused.stderr.splitlines()[-1]


def test_the_api_trains_in_several_processes():
    done = torchstone.benchmark(
        "builtin:mlp", device="cpu", batch_size=4, distributed_config={"world_size": 2, "backend": "gloo", "rank": 0},
        procedure=torchstone.Procedure(trials=1, warmup=1, iterations=3),
    )  # fmt: skip
    (case,) = done.cases
    assert case.configuration["world_size"] == 2
    assert case.trials[0].facts.ranks == 2


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"world_size": 2, "rank": 1}, "torchstone starts every rank"),
        ({"world_size": "two"}, "'two' is not a whole number"),
        ({"worldsize": 2}, "Did you mean 'world_size'"),
    ],
)
def test_a_wrong_distributed_config_says_so(config, says):
    with pytest.raises(torchstone.UsageError, match=says):
        torchstone.benchmark("builtin:mlp", device="cpu", distributed_config=config)

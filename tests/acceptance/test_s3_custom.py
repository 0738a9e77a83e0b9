"""Seed S3: a model of one's own through the Python API, trials that hang, lack memory or leak."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.long

ABSENT = "cuda" if not torch.cuda.is_available() else "mps"

CUSTOM = """
import json, torch, torchstone

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(100, 8), torch.nn.Linear(8, 2)

    def forward(self, input_ids):
        return self.head(self.table(input_ids).mean(1))

class Tokenizer:
    def __len__(self):
        return 100
    def encode(self, text):
        return [1 + ord(letter) % 99 for letter in text]
    def __call__(self, text, max_length, **_):
        words = self.encode(text)[:max_length]
        rest = [0] * (max_length - len(words))
        return {"input_ids": words + rest, "attention_mask": [1] * len(words) + rest}

def load_custom_model(model_path, device):
    print("loading", model_path, device, file=__import__("sys").stderr)
    model = Words()
    def optimizer_fn(parameters):
        return torch.optim.SGD(parameters, lr=0.1)
    return model, Tokenizer(), optimizer_fn, torch.nn.functional.cross_entropy

if __name__ == "__main__":
    torchstone.register_model("my_custom_model", load_custom_model)
    done = torchstone.benchmark(
        "my_custom_model", task="train", family="custom", device="cpu", batch_size=2, axes={"sequence_length": 8},
        data="manual", options={"model_path": "weights.bin"},
        distributed_config={"world_size": 1, "backend": "nccl", "rank": 0},
        procedure=torchstone.Procedure(trials=1, warmup=1, iterations=4), name="mine",
    )
    (case,) = done.cases
    print(json.dumps({"family": case.workload.family, "batch": case.configuration["batch_size"],
                      "status": str(case.trials[0].outcome.status), "rate": case.estimates["throughput"].value,
                      "document": str(done.document)}))
"""
SEVERAL = """
import sys, torchstone
done = torchstone.benchmark("gpt2-tiny", task="train", family="text_generation", device="cpu", batch_size=2,
                            axes={"sequence_length": 8},
                            distributed_config={"world_size": 2, "backend": sys.argv[1], "rank": 0},
                            procedure=torchstone.Procedure(trials=1, warmup=1, iterations=2))
print(str(done.document))
"""
CALL = """
import json, sys, torchstone
done = torchstone.benchmark(
    "gpt2-tiny", task="train", family=sys.argv[1], device=sys.argv[2], batch_size=3, axes={"sequence_length": 8},
    distributed_config={"world_size": 1, "backend": "nccl", "rank": 0},
    procedure=torchstone.Procedure(trials=1, warmup=1, iterations=2),
)
print(str(done.document))
"""
LINE = """
import torch

class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([20.0, -10.0]))

    def forward(self, x):
        return x @ self.weight

def load():
    return Line(), (torch.tensor([[0.1, 0.3]]), torch.tensor([-0.5])), torch.nn.functional.mse_loss
"""
TROUBLE = """
import time, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        if len(x) == 4:
            time.sleep(60)
        if len(x) >= 8:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return self.layer(x)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((4,), float(index)), index % 2

KEPT = []

class Leaking(Net):
    def forward(self, x):
        KEPT.append(torch.ones(1 << 18))
        time.sleep(0.005)
        return self.layer(x)

def load():
    return Net(), Rows(), lambda p: torch.optim.SGD(p, lr=0.1), torch.nn.functional.cross_entropy

def load_leaking():
    return Leaking(), Rows(), lambda p: torch.optim.SGD(p, lr=0.1), torch.nn.functional.cross_entropy
"""


@pytest.fixture(scope="module")
def mine(desk):
    desk.write("custom.py", CUSTOM)
    return json.loads(desk.claimed("S3-66").out.splitlines()[-1])


@pytest.fixture(scope="module")
def trouble(desk):
    desk.write("trouble.py", TROUBLE)
    return desk.claimed("S3-49").document


def by_size(run):
    return {case["configuration"]["batch_size"]: case for case in run["cases"]}


def test_s3_65_to_67_a_registered_loader_is_trained_by_the_api(desk, mine):
    assert (mine["family"], mine["batch"], mine["status"]) == ("custom", 2, "ok")
    assert mine["rate"] > 0
    document = json.loads((desk.folder / mine["document"]).read_text(encoding="utf-8"))
    (case,) = document["head"]["plan"]["cases"]
    assert case["workload"]["fixed"]["argument_model_path"] == "weights.bin"
    assert Path(case["workload"]["model"]).name == "custom.py:load_custom_model"
    assert case["workload"]["task"] == "train"


def test_s3_65_several_processes_train_together_through_a_back_end_that_the_device_has(desk):
    desk.write("several.py", SEVERAL)
    document = desk.folder / desk.type("python several.py gloo").out.splitlines()[-1]
    (trial,) = json.loads(document.read_text(encoding="utf-8"))["trials"]
    assert (trial["outcome"]["status"], trial["facts"]["ranks"]) == ("ok", 2)
    assert {m.get("rank", 0) for m in trial["measurements"] if m["metric"] == "items"} == {0, 1}
    said = desk.type("python several.py nccl", code=1)
    assert "backend=nccl does not work on cpu: backend=gloo" in said.err.splitlines()[-1]


def test_s3_65_the_documents_call_by_family_name_hardware_and_batch_size(desk):
    desk.write("call.py", CALL)
    document = desk.folder / desk.type("python call.py text_generation cpu").out.splitlines()[-1]
    run = json.loads(document.read_text(encoding="utf-8"))
    (case,) = run["head"]["plan"]["cases"]
    assert (case["workload"]["task"], case["workload"]["family"]) == ("train", "text_generation")
    assert case["workload"]["model"] == "hf:gpt2-tiny"
    assert case["placement"]["device"] == "cpu"
    assert (case["configuration"]["batch_size"], case["configuration"]["sequence_length"]) == (3, 8)
    (trial,) = run["trials"]
    assert trial["outcome"]["status"] == "ok"
    (items,) = (m["values"] for m in trial["measurements"] if m["metric"] == "items" and m["stage"] == "steady")
    assert items == [3.0, 3.0], "two steps of the batch that was asked for"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vision cpu", "gpt2-tiny is of family text_generation, not vision"),
        (f"text_generation {ABSENT}", f"device {ABSENT} not found: "),
    ],
    ids=["family", "hardware"],
)
def test_s3_65_a_call_for_what_is_not_here_is_refused_and_measures_nothing(desk, words, said):
    desk.write("call.py", CALL)
    before = set(desk.folder.glob("outputs/records/*"))
    assert said in desk.type(f"python call.py {words}", code=1).err.splitlines()[-1]
    assert set(desk.folder.glob("outputs/records/*")) == before


def trained_by_hand(name, rate, steps):
    """The losses that torch's own optimizer leaves, step by step; SGD with the momentum that docs name."""
    x, weight = torch.tensor([[0.1, 0.3]]), torch.nn.Parameter(torch.tensor([20.0, -10.0]))
    made: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": partial(torch.optim.SGD, momentum=0.9),
    }
    optimizer, losses = made[name]([weight], lr=rate), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(x @ weight, torch.tensor([-0.5]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_s3_05_06_19_and_20_each_optimizer_trains_as_torchs_own_at_each_learning_rate(desk):
    desk.write("line.py", LINE)
    run = desk.type(
        "torchstone run --task train --model py:line.py:load --optimizers adam adamw sgd --learning-rates 0.01 0.1 "
        "--axis threads=1 --trials 1 --iterations 6 --warmup 1 --warmup-budget 1ms --no-phases --name line --json"
    ).document
    points = {
        case["trials"][0]["trial_id"]: (case["configuration"]["optimizer"], case["configuration"]["learning_rate"])
        for case in run["cases"]
    }
    assert sorted(points.values()) == [(name, rate) for name in ("adam", "adamw", "sgd") for rate in (0.01, 0.1)]
    losses: dict[str, list[float]] = {}
    path = desk.folder / desk.type("torchstone export line --rows samples").out.strip()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == "loss":
                losses.setdefault(row["trial_id"], []).append(float(row["value"]))
    for trial_id, (name, rate) in points.items():
        own = losses[trial_id]
        assert len(own) >= 8, "the first step, the warm-up and the window"
        assert own == pytest.approx(trained_by_hand(name, rate, len(own)), rel=1e-4, abs=1e-7), (name, rate)
    ends = {point: losses[trial_id][3] for trial_id, point in points.items()}
    assert len({round(end, 5) for end in ends.values()}) == 6, "no two of them do the same"


def test_s3_49_a_trial_that_hangs_is_ended_at_its_time_and_the_sweep_goes_on(trouble):
    cases = by_size(trouble)
    assert [trial["outcome"]["status"] for trial in cases[2]["trials"]] == ["ok"]
    (hung,) = cases[4]["trials"]
    assert hung["outcome"]["status"] == "timed_out"
    assert "timed out after 5 s" in hung["outcome"]["message"]
    assert "trouble.py" in hung["outcome"]["message"], "it says where it hung"
    assert 5.0 <= hung["duration_s"] < 30.0


def test_s3_58_out_of_memory_is_data_with_a_ladder_and_larger_ones_are_not_tried(desk, trouble):
    cases = by_size(trouble)
    assert cases[8]["trials"][0]["outcome"]["status"] == "out_of_memory"
    (skipped,) = cases[16]["trials"]
    assert skipped["outcome"]["status"] == "skipped"
    assert "batch_size 8 ran out of memory before" in skipped["outcome"]["message"]
    (finding,) = [f for f in cases[8]["findings"] if f["check"] == "out_of_memory"]
    assert "batch_size 8 ran out of memory; 2 fitted" in finding["message"]
    for remedy in ("batch_size=4", "precision=bf16", "grad_accumulation=2"):  # the document's three solutions
        assert remedy in finding["advice"]
    assert "ran out of memory" in " ".join(desk.claimed("S3-58").out.split())


def test_s3_54_without_foresight_the_larger_one_is_tried(desk, trouble):
    cases = by_size(desk.claimed("S3-54").document)
    assert cases[16]["trials"][0]["outcome"]["status"] == "out_of_memory"


def test_s3_52_a_leak_is_seen_by_how_much_a_step_adds(desk, trouble):
    (case,) = desk.claimed("S3-52").document["cases"]
    (finding,) = [f for f in case["findings"] if f["check"] == "leak"]
    assert "resident memory grew steadily, by " in finding["message"]
    rise = finding["message"].split("by ")[1]
    assert "per 1,000 steps" in rise
    amount, unit = rise.split()[:2]
    each_mib = float(amount.replace(",", "")) * {"MiB": 1.0, "GiB": 1024.0}[unit] / 1000.0
    assert each_mib == pytest.approx(1.0, rel=0.5), "it keeps 1 MiB a step"

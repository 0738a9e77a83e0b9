"""Makes the files of tests/golden/schema_1 anew: one of each kind that torchstone reads again, by real commands.

`python tests/golden_records.py` takes three minutes on the CPU. Only until that schema is released: then its files are
never changed, and a later schema has a folder of its own.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from build import a_submission
from ci_results import SAME, SLOWER, a_point, an_entry, measured

from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.machine import Machine, Peaks
from torchstone.core.schema.run import Head, Line
from torchstone.core.schema.run_document import RunDocument

HERE = Path(__file__).parent / "golden" / "schema_1"
SAMPLE = Path(__file__).parent / "unit" / "plugins" / "importers" / "samples" / "batch_comparison.jsonl"
SLOW = """
import time
import torch

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(8) * index, index % 2

class Sleeper(torch.nn.Linear):
    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)

def loss(output, target):
    time.sleep(0.004)
    return torch.nn.functional.cross_entropy(output, target)

def load():
    torch.manual_seed(0)
    return torch.nn.Linear(8, 2), Items(), loss

def sleeper():
    return Sleeper(4, 2), torch.zeros(4, 4)
"""
OWN = """
import torch
import torchstone

torch.set_num_threads(1)
torchstone.measure(torch.nn.Linear(64, 64), torch.randn(256, 64), trials=2, warmup=1, iterations=4)
"""
SHORT = "--device cpu --axis threads=1 --trials 2 --iterations 6 --warmup-budget 100ms"
COMMANDS = {  # by the kind of their result
    "infer": f"run --model builtin:cnn --axis image_size=32 --axis batch_size=2,4 {SHORT}",
    "feed": f"run --task train --model builtin:cnn --data digits --batch-sizes 16 --axis num_workers=1 {SHORT}",
    "load": f"run --task load --model builtin:cnn --data digits --batch-sizes 16 {SHORT}",
    "generate": f"run --task generate --model hf:gpt2-tiny --axis new_tokens=4 {SHORT}",
    "tune": "tune --task train --model builtin:cnn --data digits --axis batch_size=8,16,32 --axis num_workers=0 "
    "--axis precision=fp32 --axis threads=1 --budget 200ms --warmup-budget 100ms --trials 2 --probes 4 "
    "--present batch_size=8 --device cpu",
    "ab": "ab --task train --model builtin:cnn --data synthetic --axis image_size=64 --batch-sizes 16 --axis threads=1 "
    "--a learning_rate=0.001 --b learning_rate=0.002 --within 12s --device cpu",
    "diagnose": "diagnose --task train --model py:slow.py:load --batch-sizes 8 --axis num_workers=0 --axis threads=1 "
    "--budget 12s --disturbed keep --device cpu",
    "train": "train --model builtin:mlp --data digits --epochs 2 --batch-sizes 64 --axis threads=1 --device cpu "
    "--output trained",
    "goodput": "goodput --model py:slow.py:sleeper --p99 200ms --budget 1s --within 40s --trials 1 --axis threads=1 "
    "--device cpu",
    "failed": f"run --model builtin:mlp {SHORT} --trials 1 --timeout 1ms",
    "imported": f"import {SAMPLE}",
}


def measure(folder: Path) -> None:
    """Carry out every command, each with an output folder of its own."""
    own = {**os.environ, "TORCHSTONE_CACHE": str(folder / "cache"), "TORCHSTONE_OUTPUT": "python"}
    (folder / "slow.py").write_text(SLOW)
    (folder / "own.py").write_text(OWN)
    torchstone = [sys.executable, "-m", "torchstone"]
    for kind, words in COMMANDS.items():
        subprocess.run([*torchstone, *shlex.split(words), "--output-dir", kind], cwd=folder, env=own, check=False)
    subprocess.run([sys.executable, "own.py"], cwd=folder, env=own, check=True)
    subprocess.run([*torchstone, "machine", "peaks", "--device", "cpu"], cwd=folder, env=own, check=True)


def collect(folder: Path) -> None:
    """Write what was measured, and the files of jobs and of CI, without the name and the paths of this machine."""
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir(parents=True)
    for kind in (*COMMANDS, "python"):
        (path,) = (folder / kind / "records").glob("*.jsonl")
        lines: list[Any] = [decode(line, Line) for line in path.read_bytes().splitlines()]
        lines[0] = _anywhere(lines[0])
        (HERE / f"{kind}.jsonl").write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    (path,) = (folder / "infer").glob("benchmark_*.json")
    document: RunDocument = decode(path.read_bytes(), RunDocument)
    rows = tuple({**row, "host": "host"} if "host" in row else row for row in document.rows)
    _write("document.json", msgspec.structs.replace(document, head=_anywhere(document.head), rows=rows))
    for name in ("training.json", "training_metrics.json"):
        shutil.copy(folder / "trained" / name, HERE / name)
    (path,) = (folder / "cache" / "peaks").glob("*.json")
    _write("peaks.json", msgspec.structs.replace(decode(path.read_bytes(), Peaks), hostname="host"))
    _write("plan.json", a_submission(folder="/here", output="/here/outputs"))
    _write("ci.json", measured({"a": SAME, "b": SLOWER})[0])
    _write("ci_commit.json", an_entry(1, a_point(0.01)))
    packages = Path(importlib.util.find_spec("torch").origin).parents[1]  # type: ignore[union-attr, arg-type]
    for path in HERE.iterdir():
        data = path.read_bytes()
        for place in (folder, packages, Path(__file__).parents[1], sys.base_prefix):
            data = data.replace(str(place).encode(), b"/here")
        path.write_bytes(data)


def _anywhere(head: Head) -> Head:
    command = tuple(word.rpartition("/")[2] for word in head.command)
    return msgspec.structs.replace(head, machine=_unnamed(head.machine), command=command)


def _unnamed(machine: Machine) -> Machine:
    return msgspec.structs.replace(machine, host=msgspec.structs.replace(machine.host, hostname="host"))


def _write(name: str, term: object) -> None:
    (HERE / name).write_bytes(encode(term) + b"\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name))
        collect(Path(name))

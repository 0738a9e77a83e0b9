"""The steps of every task on CUDA tensors without data (shapes_on_cuda.py): what a card would refuse, or wait for."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parents[3]
PROGRAM, SOURCE = TESTS / "shapes_on_cuda.py", TESTS / "stubs" / "cuda_shapes.cpp"
# GradScaler asks whether gradients are finite before an update that is not fused; a server streams its tokens.
MAY_WAIT = {"fused=off": "train/__init__.py:_update", "mode=latency": "tasks/generate.py:stream"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if compiler is None or sys.platform != "linux":
        pytest.skip("the stand-in of a runtime needs Linux and a C++ compiler, and there is none")
    if torch.version.cuda or torch.version.hip or getattr(torch.version, "xpu", None):
        pytest.skip("this torch has a runtime of its own")
    there, built = Path(torch.__path__[0]), tmp_path_factory.mktemp("cuda") / "shapes.so"
    # From 2.12 on torch's headers need C++20.
    words = ["-shared", "-fPIC", "-std=c++20", f"-I{there}/include", "-o", str(built), str(SOURCE)]
    links = [f"-L{there}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{there}/lib"]
    done = subprocess.run([compiler, *words, *links], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return built


def taken(library, *words):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(library), *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    steps = {told["step"]: told for told in map(json.loads, done.stdout.splitlines())}
    planted = {name: steps.pop(name) for name in list(steps) if name.startswith("planted")}
    return steps, planted


def assert_fit_for_a_card(steps):
    for name, told in steps.items():
        assert told["error"] is None, f"{name}: {told['error']}\n{told['trace']}"
        allowed = {who for words, who in MAY_WAIT.items() if words in name}
        assert set(told["waits"]) <= allowed, f"{name}: waits for the device"


def test_no_step_mixes_devices_or_waits_for_one(library):
    steps, planted = taken(library)
    assert_fit_for_a_card(steps)
    assert {name.split()[0] for name in steps} == {"train", "infer", "generate"}
    assert any("waits" in told and told["waits"] for told in steps.values()), "a token that is streamed is waited for"
    assert "FakeTensorDeviceMismatchError" in planted["planted tensor of the CPU"]["error"]
    assert planted["planted reading"]["waits"], "what this test is for, put in, is found"


@pytest.mark.long
def test_every_model_by_every_task_and_format(library):
    steps, _ = taken(library, "--whole")
    assert len(steps) > 100
    assert_fit_for_a_card(steps)

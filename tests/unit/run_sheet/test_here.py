import math
import sys

import pytest
from run_sheet.here import Done, Here
from run_sheet.one_step import ended_how


@pytest.fixture
def told():
    return {}


@pytest.fixture
def here(tmp_path, told):
    return Here("rocm", False, "spawn", tmp_path, told.__setitem__)


def test_what_is_not_finite_is_told_as_missing(here, told):
    here.note("x", math.nan)
    here.note("y", math.inf)
    here.note("z", 1.0)
    assert told == {"x": None, "y": None, "z": 1.0}


def test_amds_devices_are_cuda_to_torch(here):
    assert (here.torch_kind, here.on_cpu) == ("cuda", False)


def test_a_command_that_hangs_is_ended(here):
    done = here.python("-c", "print('begun', flush=True); import time; time.sleep(60)", limit_s=1.0)
    assert done.code == -9
    assert done.last_line == "no end within 1 s"


def asked(here, monkeypatch, *words, **more):
    seen = []
    monkeypatch.setattr(Here, "run", lambda self, words, *_: seen.extend(words))
    here.torchstone(*words, **more)
    assert seen[:3] == [sys.executable, "-m", "torchstone"]
    return seen[3:]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("python", "-m", "torchstone", "run", "--model", "hf:gpt2", "--json"), "torchstone run --model hf:gpt2 …"),
        (("python", "-m", "torchstone", "machine"), "torchstone machine"), (("nvidia-smi", "-q"), "nvidia-smi -q"),
    ],
)  # fmt: skip
def test_a_command_is_named_without_its_interpreter(words, said):
    assert Done(words, 0, "", "", 1.0).command == said


def test_a_run_is_on_the_sheets_device_with_its_isolation(here, monkeypatch):
    words = asked(here, monkeypatch, "run", "smoke")
    assert words[words.index("--device") + 1] == "rocm"
    assert words[words.index("--isolation") + 1] == "spawn"
    assert words[words.index("--output-dir") + 1] == str(here.folder / "outputs")
    assert words[-1] == "--json"


def test_what_a_step_says_itself_is_not_said_twice(here, monkeypatch):
    words = asked(here, monkeypatch, "run", "smoke", "--device", "auto", "--isolation", "fork")
    assert (words.count("--device"), words.count("--isolation")) == (1, 1)


def test_commands_are_given_only_what_they_know(here, monkeypatch):
    assert asked(here, monkeypatch, "machine", on_device=False) == ["machine", "--json"]
    assert "--isolation" not in asked(here, monkeypatch, "machine", "peaks")
    assert "--quiet" not in asked(here, monkeypatch, "evaluate", "folder")


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (MemoryError(), "out of memory"), (RuntimeError("CUDA out of memory. Tried"), "out of memory"),
        (RuntimeError("shape"), "crashed"), (KeyboardInterrupt(), "crashed"), (SystemExit(1), "crashed"),
    ],
)  # fmt: skip
def test_memory_that_ends_is_told_from_other_errors(error, how):
    assert ended_how(error) == how

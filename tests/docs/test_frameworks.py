"""The page of frameworks: its scripts run as they stand there, by the lines that stand below them."""

import importlib.util
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from torchstone.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
NEEDS = {
    "train_accelerate.py": ("accelerate",),
    "train_hf.py": ("transformers", "accelerate"),
    "train_lightning.py": ("lightning",),
    "train_loop.py": (),
}
SCRIPTS = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
LINES = re.findall(r"^ {4}(torchstone run -- python (\w+\.py))$", PAGE, re.MULTILINE)


def test_each_script_has_its_line():
    assert SCRIPTS.keys() == NEEDS.keys() == {script for _, script in LINES}


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_the_line_measures_the_script(script, tmp_path, monkeypatch, capsys):
    if lacking := [name for name in NEEDS[script] if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{lacking[0]} is not installed")
    (line,) = [line for line, of in LINES if of == script]
    monkeypatch.chdir(tmp_path)
    Path(script).write_text(SCRIPTS[script], encoding="utf-8")
    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    _, command, *words = shlex.split(line)
    assert main([command, "--trials", "1", "--budget", "0.3s", "--json", "--quiet", *words]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    figures = case["estimates"]
    assert figures["throughput"]["value"] > 0
    assert {"phase_forward_s", "phase_backward_s", "phase_optimizer_s", "phase_rest_s"} <= figures.keys()
    assert (script == "train_loop.py") == ("phase_data_s" not in figures)

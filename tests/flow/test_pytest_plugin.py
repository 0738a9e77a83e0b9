"""The plug-in of pytest: a test fails where its function became slower or larger, and only there."""

import importlib.util
import os
import subprocess
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.core.schema.comparison import Comparison, Judgement, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.integrations.pytest import Checked

pytest_plugins = ["pytester"]
INSTALLED = "torchstone" in {one.name for one in entry_points(group="pytest11")}
PLUGIN = () if INSTALLED else ("-p", "torchstone.integrations.pytest")
FILE = """
import time

def step(seconds=0.002):
    time.sleep({pause})

def test_step(torchstone):
    torchstone(step)
"""
WITHIN = ("--torchstone-within", "8s")
TESTS = Path(__file__).parents[1]
WARM = "import subprocess, warm_templates\nsubprocess.Popen = warm_templates.Popen"  # in the workers of xdist, too


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_OUTPUT", str(pytester.path / "outputs"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(TESTS.parent / "src"), str(TESTS))))
    pytester.makeconftest(WARM)
    with_pause(pytester, 0.002)
    return pytester


def with_pause(project, seconds):
    (project.path / "test_speed.py").write_text(FILE.format(pause=seconds), encoding="utf-8")


def ran(project, *words):
    return project.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *words)


def test_without_an_option_it_is_called_once_and_torch_is_not_imported(project):
    project.makeconftest("import sys\ndef pytest_sessionfinish():\n    assert 'torch' not in sys.modules")
    found = ran(project)
    found.assert_outcomes(passed=1)
    assert found.ret == 0
    assert not list(project.path.rglob("*.jsonl"))


@pytest.mark.alone  # one that was slower beside a neighbour is not judged
def test_a_baseline_is_kept_and_ten_times_as_slow_fails(project):
    ran(project, "--torchstone-save", "speed", *WITHIN).assert_outcomes(passed=1)
    assert len(list((project.path / "speed" / "records").glob("*.jsonl"))) == 1
    with_pause(project, 0.02)
    found = ran(project, "--torchstone-compare", "speed", *WITHIN)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*test_speed.py::test_step: throughput *: worse"])


def test_a_revision_is_compared_live(project):
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), ("add", "test_speed.py"), ("commit", "--quiet", "-m", "before")):
        subprocess.run([*git, *words], cwd=project.path, check=True)
    with_pause(project, 0.02)
    found = ran(project, "--torchstone-compare", "HEAD", "--torchstone-within", "30s")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*test_speed.py::test_step: *: worse"])


def test_it_works_beside_xdist(project):
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    second = (project.path / "test_speed.py").read_text(encoding="utf-8")
    (project.path / "test_other.py").write_text(second, encoding="utf-8")
    found = ran(project, "-p", "xdist", "-n", "2", "--torchstone-save", "speed", *WITHIN)
    found.assert_outcomes(passed=2)
    found.stdout.fnmatch_lines(["*test_other.py::test_step: kept in speed"])
    assert len(list((project.path / "speed" / "records").glob("*.jsonl"))) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--torchstone-save", "a", "--torchstone-compare", "b"), "not both"),
        (("--torchstone-margin", "many"), "--torchstone-margin"),
        (("--torchstone-within", "soon"), "--torchstone-within"),
    ],
)
def test_a_mistake_is_told_before_any_test(project, words, said):
    found = ran(project, *words)
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    assert said in found.stderr.str()


def test_what_no_process_can_import_is_not_compared(project):
    (project.path / "speed").mkdir()
    project.makepyfile(test_speed="def test_step(torchstone):\n    torchstone(lambda: 1)")
    found = ran(project, "--torchstone-compare", "speed")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*UsageError: torchstone measures in fresh processes: define it with def*"])


def judged(*found):
    """What a test tells, and whether it fails."""
    options = {"torchstone_save": None, "torchstone_compare": "speed", "torchstone_margin": "2%"}
    config = SimpleNamespace(getoption=options.get)
    request: Any = SimpleNamespace(config=config, node=SimpleNamespace(nodeid="a"), getfixturevalue=lambda _: ".")
    lines: list[str] = []
    try:
        Checked(request, lines.append)._judge(list(found))
    except pytest.fail.Exception:
        return lines, True
    return lines, False


def a_comparison(metric, value, verdict):
    ratio = Estimate(value, value * 0.99, value * 1.01, 0.95, "ratio", "a test", 5, 50)
    return Comparison(Side("before", "r", "c"), Side("now", "s", "c"), metric, ratio, verdict, 0.02)


@pytest.mark.parametrize(
    ("metric", "value", "verdict", "fails"),
    [
        ("throughput", 0.9, Judgement.WORSE, True),
        ("peak_rss_bytes", 1.1, Judgement.WORSE, True),
        ("peak_rss_bytes", 1.015, Judgement.WORSE, False),  # significant, and within the margin
        ("throughput", 0.8, Judgement.UNCLEAR, False),
        ("throughput", 1.2, Judgement.BETTER, False),
        ("throughput", 1.0, Judgement.SAME, False),
        ("throughput", 1.0, Judgement.NOT_COMPARABLE, True),
    ],
)
def test_significant_and_more_than_the_margin_fails(metric, value, verdict, fails):
    lines, failed = judged(a_comparison(metric, value, verdict))
    assert failed is fails
    assert f"[{value * 0.99:.3f}, {value * 1.01:.3f}]" in lines[0]
    assert str(verdict) in lines[0]

"""`torchstone ci` from two real revisions to a comment, a gate and a page; and the scripts of the action."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_github import TOKEN, pull_request_event, serving
from warm_templates import TORCHSTONE

from torchstone.config.source import read_file

pytestmark = pytest.mark.xdist_group("ci")  # one measurement serves all its tests

ROOT = Path(__file__).parents[2]
NET = """
import torch
from width import LAYERS


def load():
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(LAYERS)])
    return net, {"input": torch.zeros(64, 256)}, lambda module, batch: module(batch["input"]).square().mean()
"""


def git(folder, *words):
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def torchstone(folder, *words, code=0, **environment):
    without = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    answer = subprocess.run(
        [*TORCHSTONE, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={**without, **environment},
    )  # fmt: skip
    assert answer.returncode == code, answer.stderr + answer.stdout
    return answer


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A main branch that went on, and a change of four layers to sixteen that began before that."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q", "-b", "main")
    (folder / "net.py").write_text(NET)
    (folder / "bench.yaml").write_text("name: net\ntask: train\nmodel: py:net.py:load\naxes: {threads: 1}\n")
    (folder / "width.py").write_text("LAYERS = 4\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "four layers")
    git(folder, "switch", "-q", "-c", "change")
    (folder / "width.py").write_text("LAYERS = 16\n")
    git(folder, "commit", "-q", "-am", "sixteen layers")
    git(folder, "switch", "-q", "main")
    (folder / "width.py").write_text("LAYERS = 1\n")
    git(folder, "commit", "-q", "-am", "one layer")
    git(folder, "switch", "-q", "change")
    return folder


@pytest.fixture(scope="module")
def measured(repository, tmp_path_factory):
    """What `ci measure` leaves, and the summary of its job."""
    there = tmp_path_factory.mktemp("measured")
    answer = torchstone(
        repository, "ci", "measure", "bench.yaml", "--base", "main", "--head", "change", "--within", "90s",
        "--no-control", "--output", str(there / "result"), GITHUB_STEP_SUMMARY=str(there / "summary.md"),
        TORCHSTONE_OUTPUT=str(there / "outputs"), TORCHSTONE_CACHE=str(there / "cache"), TORCHSTONE_WHEN_BUSY="share",
    )  # fmt: skip
    return there, answer


def test_the_merge_base_is_measured_against_the_change(repository, measured):
    there, answer = measured
    result = json.loads((there / "result" / "ci.json").read_text())
    assert result["base"] == git(repository, "rev-parse", "main~1").strip(), "and not what main did since"
    assert result["head"] == git(repository, "rev-parse", "change").strip()
    assert [one["state"] for one in result["benchmarks"]] == ["measured"]
    assert "torchstone: net (1 of 1): slower" in answer.stderr
    assert "1 slower, 0 faster" in (there / "summary.md").read_text()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--porcelain").split() == []


def test_the_slower_change_is_commented_and_does_not_pass_the_gate(repository, measured, tmp_path):
    there, _ = measured
    head = git(repository, "rev-parse", "change").strip()
    (tmp_path / "event.json").write_text(json.dumps(pull_request_event(head)))
    with serving() as server:
        server.pull(7, head)
        job = {
            "GITHUB_API_URL": server.address, "GITHUB_TOKEN": TOKEN, "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "no_proxy": "*",
        }  # fmt: skip
        for _ in range(2):
            torchstone(repository, "ci", "comment", str(there / "result"), **job)
        torchstone(repository, "ci", "gate", str(there / "result"), code=1, **job)
        (comment,) = server.comments[7]
    assert "### torchstone: 1 slower, 0 faster, 0 unchanged, 0 undecided — action needed" in comment["body"]
    assert "torchstone ab " in comment["body"]


def test_a_second_measurement_does_not_overwrite_the_first(repository, measured):
    there, _ = measured
    words = ("ci", "measure", "bench.yaml", "--base", "main", "--output", str(there / "result"))
    assert "has a result already" in torchstone(repository, *words, code=2).stderr


def test_the_history_has_the_commit_and_its_page(repository, measured, tmp_path):
    there, _ = measured
    for what in ("added", "stays as it is"):
        assert what in torchstone(repository, "ci", "history", str(there / "result")).stdout
    git(repository, "worktree", "add", "-q", str(tmp_path / "history"), "torchstone-history")
    try:
        page = torchstone(
            repository, "report", "--history", str(tmp_path / "history"), "--output", str(tmp_path / "page")
        )
    finally:
        git(repository, "worktree", "remove", "--force", str(tmp_path / "history"))
    (written,) = page.stdout.split()
    text = Path(written).read_text(encoding="utf-8")
    assert "# History of the benchmarks" in text
    assert "| net | 1 | 1 | 0 |" in text


def test_without_a_base_nothing_is_measured_and_nothing_is_green(repository, tmp_path):
    words = ("ci", "measure", "bench.yaml", "--base", "origin/main", "--output", str(tmp_path / "result"))
    assert "No baseline for 1 of 1" in torchstone(repository, *words).stdout
    torchstone(repository, "ci", "gate", str(tmp_path / "result"), code=4)


# ── the action ──────────────────────────────────────────────────────────────────────────────────────────────

ACTION = read_file(ROOT / "action.yml").data
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SCRIPTS = {name: step["run"] for name, step in STEPS.items() if "run" in step}
USUAL = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}


def step(name, tmp_path, code=0, files=(), **inputs):
    """Run one script of the action with a torchstone and a python that write down what they are asked."""
    tools, log = tmp_path / "tools", tmp_path / "log"
    tools.mkdir(exist_ok=True)
    for tool in ("torchstone", "python"):
        (tools / tool).write_text(f'#!/bin/sh\nprintf "%s\\0" {tool} "$@" >> "$LOG"\nexit "$CODE"\n')
        (tools / tool).chmod(0o755)
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    told = {key: inputs.get(key, _usual(value)) for key, value in STEPS[name].get("env", {}).items()}
    told |= {"LOG": str(log), "CODE": str(code), "GITHUB_ACTION_PATH": "/a b"}
    log.write_text("")
    answer = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", SCRIPTS[name]], cwd=tmp_path, check=False,
        capture_output=True, text=True,
        env={"PATH": f"{tools}:{os.environ['PATH']}", **told},
    )  # fmt: skip
    return answer, log.read_text().split("\0")[:-1]


def _usual(expression):
    """What an input is where the workflow does not say."""
    name = expression.removeprefix("${{ inputs.").removesuffix(" }}")
    return USUAL.get(name, "f" * 40 if "sha" in expression else "")


def test_no_script_has_an_expression_in_it():
    assert not [name for name, script in SCRIPTS.items() if "${{" in script], "a branch may be called `$(reboot)`"
    assert {"Install torchstone", "Measure both commits", "Comment", "Gate"} == set(SCRIPTS)


def test_every_input_is_described_and_used():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert not [name for name, one in ACTION["inputs"].items() if not one.get("description")]
    assert not [name for name in ACTION["inputs"] if f"inputs.{name}" not in text]


def test_the_action_measures_what_matches_with_every_option(tmp_path):
    files = ("bench/a b.yaml", "bench/c.yaml", "d.yaml")
    answer, words = step("Measure both commits", tmp_path, files=files, BENCHMARKS="bench/*.yaml\nd.yaml smoke")
    assert answer.returncode == 0, answer.stderr
    head = ["torchstone", "ci", "measure", "--head", "f" * 40, "--margin", "2%", "--false-alarms", "5%"]
    assert words == [*head, "--output", "torchstone-ci", "--", *files, "smoke"]
    more = {"BASE": "main", "WITHIN": "15m", "LIMIT": "5%", "PRICE": "2.5", "CONTROL": "false", "RESULT": "$(touch x)"}
    _, words = step("Measure both commits", tmp_path, BENCHMARKS="d.yaml", **more)
    assert words[len(head) :] == [
        "--output", "$(touch x)", "--base", "main", "--within", "15m", "--fail-on", "worse:5%",
        "--price-per-hour", "2.5", "--no-control", "--", "d.yaml",
    ]  # fmt: skip
    assert not (tmp_path / "x").exists()


def test_the_action_without_a_file_fails_before_it_measures(tmp_path):
    answer, words = step("Measure both commits", tmp_path, BENCHMARKS="gone/*.yaml")
    assert (answer.returncode, words) == (2, [])
    assert "::error::" in answer.stderr


@pytest.mark.parametrize("code", [0, 1, 4])
def test_the_action_s_gate_ends_as_the_gate_does(tmp_path, code):
    answer, words = step("Gate", tmp_path, code=code, LIMIT="5%", ALLOW_NO_BASELINE="true")
    assert answer.returncode == code
    assert words == [
        "torchstone", "ci", "gate", "--accept-label", "performance-accepted", "--fail-on", "worse:5%",
        "--allow-no-baseline", "--", "torchstone-ci",
    ]  # fmt: skip


def test_the_action_comments(tmp_path):
    _, words = step("Comment", tmp_path, COMMENT="always", CHECK="my check", LIMIT="5%", PRICE="1")
    assert words == [
        "torchstone", "ci", "comment", "--key", "default", "--accept-label", "performance-accepted", "--always",
        "--check", "my check", "--fail-on", "worse:5%", "--price-per-hour", "1", "--", "torchstone-ci",
    ]  # fmt: skip


def test_the_action_installs_torchstone_and_for_a_comment_alone_no_torch(tmp_path):
    pip = ["python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    _, words = step("Install torchstone", tmp_path)
    assert words == [*pip, "/a b"]
    _, words = step("Install torchstone", tmp_path, MODE="comment")
    assert words == [*pip, "msgspec>=0.19", *pip, "--no-deps", "/a b"]


def test_a_comment_and_a_gate_need_no_other_library_than_msgspec(measured):
    there, _ = measured
    block = "import sys; sys.modules.update(dict.fromkeys(('torch', 'numpy', 'psutil', 'pynvml', 'ruamel', 'rich')))"
    for words, code in ((["comment", "--dry-run"], 0), (["gate"], 1)):
        command = f"{block}; from torchstone.cli import main; sys.exit(main({['ci', *words, str(there / 'result')]}))"
        answer = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
        assert answer.returncode == code, answer.stderr


def test_a_fork_s_token_is_never_asked_to_comment():
    condition = " ".join(STEPS["Comment"]["if"].split())
    assert "github.event.pull_request.head.repo.full_name == github.repository" in condition
    assert "github.actor != 'dependabot[bot]'" in condition
    comment = (ROOT / "examples/ci/pull-request-comment.yml").read_text(encoding="utf-8")
    assert "actions/checkout" not in comment, "it has the rights of the repository"
    assert "pull_request_target" not in comment


@pytest.mark.parametrize("path", sorted((ROOT / "examples/ci").glob("*.yml")), ids=lambda path: path.name)
def test_the_example_workflows_give_inputs_that_there_are(path):
    jobs = read_file(path).data["jobs"]
    steps = [one for job in jobs.values() for one in job["steps"]]
    ours = [one for one in steps if "torchstone@" in one.get("uses", "")]
    assert ours
    assert not [name for one in ours for name in one.get("with", {}) if name not in ACTION["inputs"]]
    assert not [one["run"] for one in steps if "${{" in one.get("run", "")]
    assert read_file(path).data["permissions"], "no more rights than it needs"

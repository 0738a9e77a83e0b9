"""What comes with the project: targets, licence, citation, examples and a page for each folder."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from acceptance.feature_rows import row_of
from ruamel.yaml import YAML

import torchstone

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def recipe(target: str) -> list[str]:
    """The lines that a target of the Makefile types."""
    found = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE)
    assert found, f"there is no target {target}"
    return [line.strip().removeprefix("@") for line in found[1].splitlines()]


def typed(target: str) -> str:
    """What a target types, as a person would who has the environment."""
    (line,) = recipe(target)
    return line.replace("$(BIN)/", "").replace("$(GPU)", "cuda")


def test_s4_12_setup_makes_an_environment_with_all_that_the_seed_installs():
    assert "setup: $(VENV)/.installed " in MAKEFILE
    extras = re.search(r"--editable '\.\[([a-z,]+)\]'", "\n".join(recipe("$(VENV)/.installed")))
    assert extras
    asked = [one for name in extras[1].split(",") for one in PROJECT["optional-dependencies"][name]]
    installed = {re.split(r"[<>=!]", one)[0] for one in [*asked, *PROJECT["dependencies"]]}
    theirs = {"torch", "transformers", "numpy", "pandas", "psutil", "nvidia-ml-py"}  # pip install … of the document
    assert theirs <= installed


def test_s4_13_14_and_15_the_targets_type_what_was_typed():
    assert typed("smoke") == "torchstone run smoke"
    assert row_of("S4-13").typed[0].startswith(typed("smoke"))
    assert typed("benchmark") == "torchstone run distilbert --device cpu"
    assert row_of("S4-14").typed[-1].startswith(typed("benchmark"))
    assert typed("benchmark-gpu") == "torchstone run distilbert --device cuda"
    assert row_of("S4-15").typed[0] == typed("benchmark-gpu")


@pytest.mark.long
def test_s4_15_where_no_gpu_is_one_line_says_so(desk):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = desk.type(row_of("S4-15").typed[0], code=2)
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert "device cuda not found" in done.err


def test_s4_16_the_target_for_both_asks_for_every_kind_of_device_that_is_here(desk):
    lines = recipe("benchmark-all")
    assert [line.replace("$(BIN)/", "") for line in lines][1] == "torchstone recommend --model distilbert"
    asks = re.fullmatch(r'\$\(BIN\)/torchstone run distilbert --device "\$\$\((.*)\)"', lines[0])
    assert asks, lines[0]
    machine, _, program = asks[1].partition(" | ")
    assert (machine, program) == ("$(BIN)/torchstone machine --json", "$(BIN)/python -c '$(KINDS)'")
    (code,) = re.findall(r"^KINDS := (.*)$", MAKEFILE, re.MULTILINE)
    printed = desk.type("torchstone machine --json")
    done = subprocess.run([sys.executable, "-c", code], input=printed.out, capture_output=True, text=True, check=True)
    kinds = dict.fromkeys(device["kind"] for device in printed.document["machine"]["devices"])
    assert done.stdout.strip().split(",") == list(kinds)


def test_s4_17_to_23_every_target_of_reports_and_results_is_a_command():
    from importlib import import_module

    from torchstone.cli._parsing import Parser

    targets = ("report", "report-pdf", "report-pptx", "report-full", "manifest", "verify-manifest", "release")
    for target in targets:
        words = shlex.split(typed(target))
        assert words.pop(0) == "torchstone"
        command = import_module(f"torchstone.cli.{words.pop(0)}_command")
        parser = Parser(prog=target)
        command.add_arguments(parser)
        parser.parse_args(words)  # raises UsageError for what is no option
    printed = {*row_of("S4-07").printed, *row_of("S4-11").printed}
    assert printed == {"make report", "make report-full", "make quick-report"}
    for target, folder in (("test-analysis", "tests/unit/analysis"), ("test-reporting", "tests/unit/report")):
        assert folder in typed(target).split()
        assert (ROOT / folder).is_dir()
    assert re.search(r"^quick-report: smoke report ", MAKEFILE, re.MULTILINE)


def test_s4_18_and_31_the_targets_submit_scripts_that_can_be_read(desk):
    from torchstone.cli import submit_command
    from torchstone.cli._parsing import Parser

    for target, device in (("slurm", None), ("slurm-cpu", ["cpu"]), ("slurm-gpu", ["cuda"])):
        words = shlex.split(typed(target).replace("$(SLURM)", "--partition gpu"))
        assert words[:3] == ["torchstone", "submit", "distilbert"]
        parser = Parser(prog=target)
        submit_command.add_arguments(parser)
        asked = parser.parse_args(words[2:])
        assert (asked.on, asked.device, asked.partition) == ("slurm", device, "gpu")
        assert (asked.gres == "gpu:1") == (target == "slurm-gpu")
    done = desk.type(row_of("S4-18").typed[0])
    assert "#SBATCH --array=0-" in done.out
    assert "-m torchstone run --plan" in done.out
    assert "-m torchstone submit --merge" in done.out


def test_s4_20_every_commit_is_checked_by_what_lint_runs():
    ruff = ["$(BIN)/ruff check --quiet .", "$(BIN)/ruff format --check --quiet ."]
    assert recipe("lint") == [*ruff, "$(BIN)/lint-imports --no-cache --no-logo"]
    assert "$(BIN)/pre-commit install" in recipe("setup-pre-commit")
    hooks = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"] for repo in hooks for hook in repo["hooks"]]
    assert [" ".join(shlex.split(one)[:2]) for one in entries[:2]] == [".venv/bin/ruff check", ".venv/bin/ruff format"]
    assert ".venv/bin/mypy" in entries
    assert ".venv/bin/lint-imports --no-cache --no-logo" in entries


def test_s4_34_the_licence_is_mit_in_all_three_places():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n\nCopyright (c) ")
    assert "Permission is hereby granted, free of charge" in text
    assert 'THE SOFTWARE IS PROVIDED "AS IS"' in text
    assert PROJECT["license"] == "MIT"
    assert citation()["license"] == "MIT"


def test_s4_34_a_citation_has_what_a_bibliography_needs():
    found = citation()
    assert found["cff-version"] == "1.2.0"
    assert found["type"] == "software"
    assert found["title"] == PROJECT["name"] == torchstone.__name__
    assert found["version"] == PROJECT["version"]
    assert found["authors"]
    assert found["message"]


def test_s4_34_the_readme_has_it_as_bibtex_too():
    entry = re.search(r"@software\{(\w+),\n(.*?)\n\}", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert entry
    found = citation()
    assert entry[1] == found["title"]
    assert dict(re.findall(r"^  (\w+) += \{+(.*?)\}+,?$", entry[2], re.MULTILINE)) == {
        "author": " and ".join(author["name"] for author in found["authors"]),
        **{field: found[field] for field in ("title", "version", "license")},
    }


def citation() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(ROOT / "CITATION.cff")
    return found


def test_s4_35_every_example_is_explained_with_a_line_to_type():
    page = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    files = [path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".yaml")]
    assert files
    for name in files:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| [{name}]({name})")]
        assert name in row.split("|")[3], "what to type names it"


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_s4_35_every_folder_is_explained_on_its_page(folder):
    page = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    inside = [p.name for p in (ROOT / folder).iterdir() if p.is_dir() and p.name not in ("__pycache__", "data")]
    assert all(name in page for name in inside), [name for name in inside if name not in page]


@pytest.mark.long
@pytest.mark.parametrize("name", ["own_loop.py", "own_data.py", "diagnostics.py"])
def test_s4_35_an_example_runs_as_it_is(desk, name):
    pytest.importorskip("vl_convert")
    line = next(line for line in row_of("S4-35").typed if line.endswith(name))
    desk.write(f"examples/{name}", (ROOT / "examples" / name).read_text(encoding="utf-8"))
    assert desk.type(line).out.strip()

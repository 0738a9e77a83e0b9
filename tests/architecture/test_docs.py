"""The pages name what is there, and nothing else."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "torchstone"
TREE = re.search(r"```tree\n(.*?)```", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.DOTALL)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])


def test_the_tree_names_every_module_and_no_other() -> None:
    assert TREE, "docs/architecture.md has lost its ```tree block"
    named = {name.rstrip("/") for name in re.findall(r"[a-z_]+\.py\b|[a-z_]+/", TREE[1])}
    there = {path.name for path in SOURCE.glob("*.py")} | {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert named == there - {"__init__.py", "__pycache__"}


def test_the_readme_begins_with_two_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE)[:2] == ["demo", "test"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_targets_and_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= TARGETS
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert not [link for link in links if not (page.parent / link).exists()]

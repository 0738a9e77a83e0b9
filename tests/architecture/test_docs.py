"""The pages name what is there, and nothing else."""

import re
from pathlib import Path

from over import over

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "torchstone"
TREE = re.search(r"```tree\n(.*?)```", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.DOTALL)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")})
# A path with a folder, perhaps with a test in it.
NAMED = re.compile(r"`([a-zA-Z_0-9.-]+(?:/[a-zA-Z_0-9.-]+)+\.py)(?:::\w+)?`")
FROM = (ROOT, SOURCE, ROOT / "tests", ROOT / "benchmarks")  # where the paths on pages begin


def test_the_tree_names_every_module_and_no_other() -> None:
    assert TREE, "docs/architecture.md has lost its ```tree block"
    named = {name.rstrip("/") for name in re.findall(r"^(?:[a-z_]+\.py\b|[a-z_]+/)", TREE[1], re.MULTILINE)}
    there = {path.name for path in SOURCE.glob("*.py")} | {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert named == there - {"__init__.py", "__pycache__"}


def test_the_readme_begins_with_two_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE)[:2] == ["demo", "test"]


@over("page", PAGES)
def test_pages_name_only_targets_and_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= TARGETS
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert not [link for link in links if not (page.parent / link).exists()]


# The change log names what was there; CONTRIBUTING.md names files that a reader is about to make.
@over("page", [page for page in PAGES if page.name not in ("CHANGELOG.md", "CONTRIBUTING.md")])
def test_source_files_that_a_page_names_exist(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    assert not {name for name in named if not any((top / name).exists() for top in (page.parent, *FROM))}


def test_the_walk_of_a_trial_goes_through_every_layer_that_takes_part() -> None:
    walk = (ROOT / "docs/a-trial.md").read_text(encoding="utf-8")
    layers = {name.split("/")[0] for name in NAMED.findall(walk)}
    assert layers >= {"cli", "config", "workflows", "execution", "plugins", "storage", "core", "analysis", "report"}

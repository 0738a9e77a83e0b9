"""The pages of the site: each is found from the first one, no link is dead, what they show can be typed."""

import ast
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from over import over

from torchstone.cli import COMMANDS
from torchstone.cli._parsing import Parser, add_language
from torchstone.core.errors import UsageError

ROOT = Path(__file__).parents[2]
HOME = ROOT / "docs" / "README.md"
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("[!.]*/README.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")}
)
FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_TYPED = re.compile(r"[…|\[]|\.\.\.|\b(?!HEAD\b)[A-Z]{3,}\b")  # a synopsis: RUN…, [--json], speed|energy, FILE


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> list[str]:
    """Where the links of a page lead, as they are written; those in code are none."""
    text = re.sub(r"`[^`\n]*`(?!\]\()", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if k == 0 else f"{slug}-{k}" for slug, last in found.items() for k in range(last + 1)}


def commands(page: Path) -> Iterator[str]:
    """What a page shows to be typed after `torchstone`, without the remark beside it."""
    text = page.read_text(encoding="utf-8")
    blocks = [block for language, block in FENCE.findall(text) if language in ("", "sh", "bash", "console")]
    indented = re.findall(r"^ {4}(?:\$ )?(torchstone .*)$", FENCE.sub("", text), re.MULTILINE)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()] + indented
    inline = re.findall(r"`(torchstone \w+ [^`\n]+)`", FENCE.sub("", text))
    for line in (*lines, *inline):
        typed = re.split(r" {2,}| #", line)[0]
        if typed.startswith("torchstone ") and not NOT_TYPED.search(typed):
            yield typed.removeprefix("torchstone ")


def mistakes(page: Path) -> list[str]:
    """Where a page's pieces of Python do not compile."""
    found = []
    for language, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in ("python", "py"):
            try:
                ast.parse(code)
            except SyntaxError as error:
                found.append(f"{error.msg}: {(error.text or '').strip()}")
    return found


def fault(typed: str) -> str | None:
    """What the command line has against these words, without running them."""
    name, *words = shlex.split(typed)
    if "--" in words:  # what follows is a program's
        words = words[: words.index("--")]
    if name not in COMMANDS:
        return None if name.startswith("-") else f"{typed}: no command of that name"
    command = import_module(f"torchstone.cli.{name}_command")
    parser = Parser(prog=f"torchstone {name}")
    command.add_arguments(parser)
    add_language(parser)
    try:
        parser.parse_args([word for word in words if word not in ("--help", "-h")])
    except UsageError as error:
        return f"{typed}: {error}"
    return None


def test_every_page_is_in_the_navigation():
    listed = set()  # which is made of the tables of the pages called README.md (docs/conf.py)
    for page in [page for page in PAGES if page.name == "README.md" and ROOT / "docs" in page.parents]:
        rows = re.findall(r"^\|.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
        found = re.findall(r"\]\(([^)#:]+\.md)\)", "\n".join(rows))
        listed |= {(page.parent / link).resolve() for link in found}
    assert {name_of(page) for page in set(PAGES) - listed - {HOME}} == set()


@over("page", PAGES, name_of)
def test_no_link_is_dead(page):
    dead = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.is_file() or (anchor and anchor not in anchors(there)):
            dead.append(link)
    assert dead == []


@over("page", PAGES, name_of)
def test_every_command_can_be_typed(page):
    assert [found for typed in commands(page) if (found := fault(typed))] == []


@over("page", PAGES, name_of)
def test_every_piece_of_python_compiles(page):
    assert mistakes(page) == []


def test_the_program_of_the_first_page_runs(monkeypatch):
    ((_, code),) = [one for one in FENCE.findall((ROOT / "docs/start.md").read_text(encoding="utf-8")) if one[0]]
    program: dict[str, Any] = {}
    exec(compile(code, "mine.py", "exec"), program)
    monkeypatch.setattr(program["time"], "sleep", lambda _: None)
    model, rows, loss = program["load"]()
    x, label = rows[len(rows) - 1]
    assert loss(model(x), program["torch"].tensor(label)).item() > 0.0


def test_a_wrong_command_and_a_remark_are_told_apart(tmp_path):
    page = tmp_path / "page.md"
    text = "```\ntorchstone run demo      a recipe\ntorchstone rnu demo\ntorchstone show RUN [--json]\n```\n"
    page.write_text(text + "Type `torchstone run demo --no-such-option`.\n\n    torchstone runs  # all\n")
    assert list(commands(page)) == ["run demo", "rnu demo", "runs", "run demo --no-such-option"]
    assert [typed for typed in commands(page) if fault(typed)] == ["rnu demo", "run demo --no-such-option"]


def test_a_piece_of_python_that_does_not_compile_is_shown(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n```py title='mine.py'\nx = = 1\n```\n```\nno Python\n```\n")
    assert mistakes(page) == ["invalid syntax: x = = 1"]


def test_a_dead_anchor_is_told_from_one_that_is_there(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b`: c\n\n## Twice\n\n## Twice\n")
    assert anchors(page) == {"a-b-c", "twice", "twice-1"}

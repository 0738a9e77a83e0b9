"""Below report/ nothing is decided by the words of a text: findings, outcomes and reasons are ids with values."""

import ast
from collections.abc import Iterator
from pathlib import Path

from over import over
from source_texts import texts_of

SOURCE = Path(__file__).parents[2] / "src" / "torchstone"
LAYERS = ("core", "config", "analysis", "execution", "storage", "plugins", "workflows")
FILES = {str(path.relative_to(SOURCE)): path for layer in LAYERS for path in sorted((SOURCE / layer).rglob("*.py"))}
# Attributes that hold texts for people, and what looks for words in one.
TEXTS = {"message", "advice", "why", "why_text", "text", "headline"}
READING = {
    "startswith", "endswith", "split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "find",
    "index", "count",
}  # fmt: skip
MATCHING = {"search", "match", "fullmatch", "findall", "finditer", "sub"}
JOINTS = {"; ", ". "}  # between statements
# Where words are read all the same, and why: they are another program's.
ALLOWED = {
    "execution/worker/outcome.py": "what drivers, torch and its libraries mean by an error",
    "plugins/tasks/_settings.py": "torch says in words alone that it has no such kernel",
    "plugins/models/_weights_file.py": "transformers says in words alone that shapes differ",
    "plugins/devices/_torch_device.py": "torch says in words alone that there is no device",
    "workflows/ci/history_branch.py": "git says in words alone that a branch has moved",
    "config/run_file.py": "a mistake is shown at its place, which its line then need not name again",
    "config/source.py": "tomllib gives a mistake's place in its message alone, which then need not be named again",
}


def readings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a text is looked into, and how."""
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)} | {"error", "fault"}

    def is_text(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in TEXTS
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr")):
            return False
        return any(is_text(arg) or (isinstance(arg, ast.Name) and arg.id in caught) for arg in node.args)

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, first = node.func.attr, next(iter(node.args), None)
            if name in READING and (first or name != "split") and is_text(node.func.value):  # split(): spaces alone
                yield node.lineno, f"a text is read by .{name}"
            if name in MATCHING and any(is_text(inner) for arg in node.args for inner in ast.walk(arg)):
                yield node.lineno, f"a text is read by .{name}"
            value = first.value if isinstance(first, ast.Constant) else None
            if name in ("split", "partition", "rpartition") and value in JOINTS:
                yield node.lineno, "statements that were joined are cut apart"
            if name == "sub" and value == "#":
                yield node.lineno, "numbers are replaced, to tell texts apart"
        if isinstance(node, ast.Compare):
            is_searched = isinstance(node.ops[0], ast.In | ast.NotIn)
            compared = node.comparators if is_searched else [node.left, *node.comparators]
            is_compared = is_searched or isinstance(node.ops[0], ast.Eq | ast.NotEq)
            if is_compared and any(map(is_text, compared)):
                yield node.lineno, "a text is compared"


# Where what is said is a Statement: its words are messages of report/.
STATEMENTS = [
    "analysis/advice/analyses.py",
    "analysis/roofline.py",
    *(
        f"analysis/recommend/{name}.py"
        for name in ("candidates", "case_history", "hardware", "parameters", "recommend")
    ),
]
# Titles, units, methods and words with their values: no sentences.
PHRASES = {
    "{0}s/s per GB", "{0} {1}", "code {0}", "t on the log over runs, the spread that of all levels", "by batch size",
    "by model size", "by optimizer", "mixed precision", "the case", "none near (nearest: {0})", "{0} {1} {2} {3}",
    "of the datasheet's dense rate", "of the best measured matrix product (burst)", "of the roofline",
    "of the sustained matrix product", "{0}, {1}",
}  # fmt: skip


@over("name", STATEMENTS)
def test_no_sentence_is_built(name: str) -> None:
    texts = {text for text, _ in texts_of(FILES[name].read_text(encoding="utf-8"))}
    assert {text for text in texts if " " in text} <= PHRASES


def test_a_sentence_is_found() -> None:
    assert [text for text, _ in texts_of('def f(n):\n    yield f"{n} settings are not in here"')]


@over("name", FILES)
def test_no_text_decides(name: str) -> None:
    found = list(readings(ast.parse(FILES[name].read_text(encoding="utf-8"))))
    if name in ALLOWED:
        assert found, "nothing is read there any more: leave it out of ALLOWED"
    else:
        assert not found, found


def test_what_reads_texts_is_found() -> None:
    for code in (
        'a.message.startswith("x")', '"killed" in outcome.message', 'found.why == "gone"', 'told.split("; ")',
        '_NUMBER.sub("#", message)', "_ENOUGH.search(found.why)", "_PLACE.search(str(one.message))",
        'try:\n    f()\nexcept E as fault:\n    str(fault).startswith("base: ")',
    ):  # fmt: skip
        assert list(readings(ast.parse(code))), code
    for code in ("print(outcome.message)", 'f"{a.message}"', "a.message is None", 'words.split(",")'):
        assert not list(readings(ast.parse(code))), code

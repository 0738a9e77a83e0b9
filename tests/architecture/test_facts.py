"""A fact stands in one place: no list of axes or titles beside it, and docs/facts.md names the place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchstone.core.schema.axis import AXES, AxisStage, axes_of
from torchstone.core.schema.metric import FIGURES, PEAKS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "torchstone"
TREES = {
    str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
}
PAGE = (ROOT / "docs" / "facts.md").read_text(encoding="utf-8")

AXIS, METRIC, TRIAL = (f"core/schema/{name}.py" for name in ("axis", "metric", "trial"))
# Lists that are a fact of their own.
OF_THEIR_OWN = {
    "analysis/advice/trainings.py",  # whose effect on the loss is asked for
    "plugins/tasks/",  # which axes a task has
}
VIEWS = ("cli/", "report/")  # choose columns, and their order


def texts(node: ast.AST) -> list[str]:
    """The strings of a literal collection."""
    if not isinstance(node, ast.Tuple | ast.List | ast.Set):
        return []
    return [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def at(node: ast.AST) -> str:
    return f"line {getattr(node, 'lineno', '?')}"


def lists_of_axes(tree: ast.AST) -> Iterator[str]:
    """Literals that name three axes of one stage."""
    for node in ast.walk(tree):
        said = set(texts(node))
        for stage in AxisStage if len(said) >= 3 else ():
            if len(named := said & set(axes_of(stage))) >= 3:
                yield f"{at(node)}: {', '.join(sorted(named))} are axes of stage {stage}"


def is_title(value: object) -> bool:
    """Whether it is in words: neither another name of a figure nor a key of a library."""
    return isinstance(value, str) and value not in FIGURES and not re.search(r"[_.{]", value)


def lists_of_titles(tree: ast.AST) -> Iterator[str]:
    """Mappings of three figures to what they are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            said = [k.value for k, v in pairs if isinstance(k, ast.Constant) and isinstance(v, ast.Constant)
                    and k.value in FIGURES and is_title(v.value)]  # fmt: skip
            if len(said) >= 3:
                yield f"{at(node)}: titles of {', '.join(map(str, said))}"


def checks_of_axes(tree: ast.AST) -> Iterator[str]:
    """Messages of an unknown axis; docstrings may speak of one."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("unknown") and node.args:
            if ast.unparse(node.args[0]).strip("f'\"").split(" of ")[0] == "axis":
                yield f"{at(node)}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and "unknown axis" in str(node.value) and id(node) not in docstrings:
            yield f"{at(node)}: {node.value!r}"


def lists_of_memory(tree: ast.AST) -> Iterator[str]:
    """Literals of two figures of peak memory and nothing else: an order of preference."""
    for node in ast.walk(tree):
        if len(found := texts(node)) > 1 and set(found) <= set(PEAKS):
            yield f"{at(node)}: {', '.join(found)}"


def rules_of_replicates(tree: ast.AST) -> Iterator[str]:
    """Comparisons with the purpose of a replicate."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "Purpose.REPLICATE" in map(ast.unparse, node.comparators):
            yield f"{at(node)}: {ast.unparse(node)}"


def outside(*places: str) -> list[str]:
    return [name for name in TREES if not name.startswith(places)]


@pytest.mark.parametrize(
    ("find", "names"),
    [
        (lists_of_axes, outside(AXIS, *OF_THEIR_OWN)),
        (lists_of_titles, outside(METRIC, "plugins/importers/", *VIEWS)),  # an importer knows others' words for them
        (checks_of_axes, outside(AXIS)),
        (lists_of_memory, outside(METRIC)),
        (rules_of_replicates, outside(TRIAL, "execution/controller/", *VIEWS)),  # a controller minds what it takes
    ],
)
def test_no_fact_is_said_again(find, names) -> None:
    found = {name: told for name in names if (told := list(find(TREES[name])))}
    assert not found


@pytest.mark.parametrize(
    ("find", "source"),
    [
        (lists_of_axes, 'A = ("num_workers", "pin_memory", "prefetch_factor")'),
        (lists_of_axes, 'aside = {"batch_size", "optimizer", "learning_rate", "grad_accumulation"}'),
        (lists_of_titles, 'T = {"throughput": "rate", "step_time_p50": "step", "latency_per_batch_p50_s": "latency"}'),
        (checks_of_axes, 'raise unknown("axis", name, AXES)'),
        (checks_of_axes, 'raise unknown(f"axis of {model}", name, AXES)'),
        (checks_of_axes, 'raise UsageError(f"unknown axis {name}")'),
        (lists_of_memory, 'M = ("peak_allocated_bytes", "peak_rss_bytes")'),
        (rules_of_replicates, "good = [t for t in trials if t.purpose == Purpose.REPLICATE]"),
    ],
)
def test_what_says_it_again_is_found(find, source) -> None:
    assert list(find(ast.parse(source)))


@pytest.mark.parametrize(
    ("find", "source"),
    [
        (lists_of_axes, 'A = ("batch_size", "num_workers", "precision", "optimizer")'),
        (lists_of_titles, 'C = {"throughput": "throughput", "step_s": "step_time_p50", "loss_last": "loss_last"}'),
        (checks_of_axes, 'raise unknown("device", word, kinds)'),
        (lists_of_memory, 'M = ("peak_reserved_bytes", "kv_cache_bytes", "peak_rss_bytes")'),
        (rules_of_replicates, "if trial.purpose == Purpose.PROBE: pass"),
    ],
)
def test_what_is_another_fact_is_not(find, source) -> None:
    assert not list(find(ast.parse(source)))


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/facts.md has lost its section {title}"
    return found[1]


def missing(line: str) -> list[str]:
    """What a line of the page names that is not in its file."""
    files = re.findall(r"`([a-z_/]+\.py)`", line)
    symbols = [word for word in re.findall(r"`([A-Za-z_]+)`", line) if word not in AXES]
    if not files or not symbols:
        return [line]
    absent = [name for name in files if not (SOURCE / name).is_file()]
    text = "".join((SOURCE / name).read_text(encoding="utf-8") for name in files if name not in absent)
    return absent + [word for word in symbols if not re.search(rf"\b{word}\b", text)]


def test_the_table_of_facts_names_files_that_have_them() -> None:
    rows = [row for row in section("One place for each fact").splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 9
    assert not {row: told for row in rows if (told := missing(row))}


def test_the_walk_of_batch_size_is_twenty_files_at_most_and_each_has_what_it_names() -> None:
    steps = re.findall(r"^\d+\. .*", section("The walk of `batch_size`"), re.MULTILINE)
    files = {name for step in steps for name in re.findall(r"`([a-z_/]+\.py)`", step)}
    assert 10 < len(files) <= 20
    assert not {step: told for step in steps if (told := missing(step))}

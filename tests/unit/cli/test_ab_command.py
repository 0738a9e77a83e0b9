"""The words of `ab`: what makes two sides, what a gate lets through, and what is said of a dirty work tree."""

import subprocess

import pytest

from torchstone.cli._parsing import Parser
from torchstone.cli.ab_command import add_arguments, fails, gate_of, rules_of, sides_of
from torchstone.core.errors import UsageError
from torchstone.core.schema.comparison import Comparison, Judgement, Side
from torchstone.core.schema.estimate import Estimate

WHAT = ("--task", "train", "--model", "py:net.py:load")


def options(*words: str):
    parser = Parser(prog="torchstone ab")
    add_arguments(parser)
    return parser.parse_args(list(words))


def sides(*words: str):
    typed = options(*words)
    return sides_of(typed, typed.sides)


def git(folder, *words):
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    (tmp_path / "net.py").write_text("def load(): ...\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_uncommitted_changes_are_told_where_they_are_in_neither_side(repository, capsys):
    with sides("HEAD", "HEAD", *WHAT):
        assert capsys.readouterr().err == ""
    (repository / "net.py").write_text("def load(): pass\n")
    with sides("HEAD", "HEAD", *WHAT):
        assert "uncommitted changes of 1 file are in neither side" in capsys.readouterr().err
    with sides("HEAD", ".", *WHAT) as (_, b):
        assert capsys.readouterr().err == ""
        assert (b.label, b.folder) == ("work tree (1 changed file)", repository)


def test_a_heap_that_keeps_its_memory_is_in_huge_pages_unless_it_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = "name: mine\ntask: infer\nmodel: builtin:linear\nprocedure: {{heap: {}}}\n"
    for heap in ("fixed", "default"):
        (tmp_path / f"{heap}.yaml").write_text(recipe.format(heap))

    def heaps(*words: str) -> list[str]:
        with sides(*words) as both:
            return [side.request.procedure.heap for side in both]

    assert heaps("fixed.yaml", "fixed.yaml") == ["huge", "huge"]
    assert heaps("fixed.yaml", "fixed.yaml", "--heap", "fixed") == ["fixed", "fixed"]
    assert heaps("default.yaml", "default.yaml") == ["default", "default"]


def test_threads_are_pinned_unless_it_is_said_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = "name: mine\ntask: infer\nmodel: builtin:linear\nprocedure: {{{}}}\n"
    (tmp_path / "silent.yaml").write_text(recipe.format(""))
    (tmp_path / "no.yaml").write_text(recipe.format("pin_threads: false"))

    def pinned(*words: str) -> list[bool | None]:
        with sides(*words) as both:
            return [side.request.procedure.pin_threads for side in both]

    assert pinned("silent.yaml", "silent.yaml") == [True, True]
    assert pinned("silent.yaml", "silent.yaml", "--no-pin-threads") == [False, False]
    assert pinned("silent.yaml", "no.yaml") == [True, False]
    assert pinned("no.yaml", "no.yaml", "--pin-threads") == [True, True]


def test_a_misspelt_recipe_is_named_and_not_the_one_that_there_is(repository):
    with pytest.raises(UsageError, match="'smok' is neither a recipe"), sides("smoke", "smok"):
        pass
    with pytest.raises(UsageError, match="not one of each"), sides("smoke", "HEAD", *WHAT):
        pass


@pytest.mark.parametrize("flag", ["--trials=3", "--budget=5m", "--time-limit=1h", "--telemetry=1s", "--no-phases"])
def test_what_would_say_nothing_to_two_sides_in_turn_is_no_option(flag):
    with pytest.raises(UsageError, match="unrecognized"):
        options("smoke", flag)


def test_rules():
    rules = rules_of(options("smoke", "--margin", "1%", "--false-alarms", "5%", "--within", "2m", "--seed", "3"))
    assert (rules.margin, rules.false_alarms, rules.budget_s, rules.seed) == (0.01, 0.05, 120.0, 3)
    assert rules_of(options("smoke")).budget_s == 60.0
    with pytest.raises(UsageError, match="--false-alarms 60%"):
        rules_of(options("smoke", "--false-alarms", "60%"))


def ended(verdict: str, ratio: float | None = 1.04) -> Comparison:
    told = Estimate(ratio, ratio - 0.01, ratio + 0.01, 0.99, "ratio", "pairs", 10, 100) if ratio is not None else None
    return Comparison(Side("old", "", "a"), Side("new", "", "b"), "step_time_mean", told, Judgement(verdict), 0.02)


@pytest.mark.parametrize(
    ("verdict", "fail_on", "closed"),
    [
        ("worse", ["worse"], True), ("better", ["worse"], False), ("unclear", ["worse"], False),
        ("unclear", ["worse", "unclear"], True), ("not_comparable", ["worse"], True), ("not_comparable", [], True),
        ("worse", ["worse:5%"], False), ("worse", ["worse:3%"], True), ("unclear", ["worse:3%,unclear"], True),
        ("worse", [], False), ("better", ["better"], True), ("not_comparable", ["worse:5%"], True),
    ],
)  # fmt: skip
def test_a_side_that_fails_passes_no_gate(verdict, fail_on, closed):
    words = ["--fail-on", *fail_on] if fail_on else []
    assert fails(ended(verdict), gate_of(options("old.yaml", "new.yaml", *words))[0]) is closed


def test_a_gate_closes_on_unclear_without_any_ratio():
    assert fails(ended("unclear", None), gate_of(options("--fail-on", "unclear"))[0])


@pytest.mark.parametrize(
    "words",
    [
        ("HEAD", ".", "--fail-on", "worse", "unclear"), ("--fail-on", "worse", "HEAD", ".", "--fail-on", "unclear"),
        ("HEAD", "--fail-on", "worse,unclear", "."), ("--fail-on", "worse", "unclear", "HEAD", ".", "--quiet"),
    ],
)  # fmt: skip
def test_a_gate_takes_several_words_and_leaves_the_sides_their_own(words):
    assert gate_of(options(*words)) == ({"worse": 0.0, "unclear": 0.0}, ["HEAD", "."])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fail-on", "bad"), "--fail-on bad: write worse, worse:5%, unclear or better"),
        (("HEAD", ".", "--fail-on", "worse", "uncler"), "--fail-on uncler"),
        (("HEAD", ".", "--fail-on", "worse", "unclear:5%"), "--fail-on unclear:5%"),
        (("HEAD", ".", "--fail-on", "worse:x"), "--fail-on worse"),
    ],
)
def test_a_word_that_is_no_verdict_is_named(words, said):
    with pytest.raises(UsageError, match=said):
        gate_of(options(*words))

"""The comment of every state, as files that were looked at; and what no name in it can do.

TORCHSTONE_RENEW_GOLDEN=1 pytest tests/unit/report/test_ci_comment.py writes the files anew; then look at the diff.
"""

import os
import re
import shlex
from pathlib import Path

import msgspec
import pytest
from ci_results import HOSTILE, OPEN, SAME, SLOWER, STATES, assessed, measured

from torchstone.analysis.ci import assess
from torchstone.core.errors import UsageError
from torchstone.report.documents.ci import MOST_BYTES, comment_text, inert, marker, summary_text

GOLDEN = Path(__file__).parents[2] / "golden" / "ci"
RENEW = "TORCHSTONE_RENEW_GOLDEN"
each = pytest.mark.parametrize("name", STATES)
LINK = "https://github.com/octo/repo/actions/runs/1"


def file_of(name: str) -> Path:
    return GOLDEN / f"{re.sub(r'[^a-z0-9]+', '_', name)}.md"


def visible(text: str) -> list[str]:
    """The lines that are seen before anything is unfolded: without the marker, rules of tables and fences."""
    outside = re.sub(r"(<details><summary>.*?</summary>).*?</details>", r"\1", text, flags=re.DOTALL)
    lines = [line for line in outside.splitlines() if line and not line.startswith("<!--")]
    return [line for line in lines if not re.fullmatch(r"`{3,}|\|[:|-]+\|", line)]


@each
def test_a_comment_is_as_it_was_looked_at(name):
    text, file = comment_text(STATES[name](), link=LINK), file_of(name)
    if os.environ.get(RENEW) == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"{RENEW}=1 writes it; then look at it"
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.skipif(os.environ.get(RENEW) == "1", reason="they are being written")
def test_every_file_is_that_of_a_state():
    assert {path.name for path in GOLDEN.iterdir()} == {file_of(name).name for name in STATES}


@each
def test_a_comment_is_short_and_begins_with_the_counts_and_what_to_do(name):
    text = comment_text(STATES[name](), link=LINK)
    first, title, _, answer, *_ = text.split("\n")
    assert first == marker("default")
    assert re.match(
        r"### torchstone: \d+ slower, \d+ faster, \d+ unchanged, \d+ undecided"
        r"(, \d+ without a baseline)?(, \d+ failed)? — ",
        title,
    )
    assert answer.startswith("**")
    assert answer.endswith("**")
    seen = visible(text)
    assert len(seen) <= 15, seen
    assert sum(line.startswith("|") for line in seen) <= 11, "ten rows and their titles"


@each
def test_a_name_becomes_no_mention_no_link_and_no_markup(name):
    for text in (comment_text(STATES[name](), link=LINK), summary_text(STATES[name]())):
        assert all(c.isprintable() or c == "\n" for c in text)
        prose = re.sub(r"^(`{3,})\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        prose = prose.replace(LINK, "").replace("<span>$</span>", "")
        assert "$" not in prose, "it would begin a formula"
        assert not re.search(r"@\w|(?<!&)#\d|GH-\d|://|www\.", prose)
        assert not re.search(r"(?<!\\)<(?!/?details>|/?summary>|!-- torchstone comment: default -->)", prose)
        assert not re.search(r"(?<!\\)\]\((?!\))", prose)
        assert not re.search(r"&(?!#8203;|amp;|lt;|gt;|quot;|#x27;)", prose)


def test_what_is_typed_is_one_line_in_which_nothing_can_be_added():
    text = comment_text(STATES["slower"]())
    (command,) = re.findall(r"^```\n(torchstone ab .*)\n```$", visible_with_fences(text), re.MULTILINE)
    assert command == "torchstone ab a1b2c3d4e 0f1e2d3c4 --config bench.yaml --axis batch_size=1"
    result, runs = measured({"a": SLOWER})

    def with_words(*words):
        one = msgspec.structs.replace(result.benchmarks[0], words=words)
        return comment_text(assess(msgspec.structs.replace(result, benchmarks=(one,)), runs))

    words = ("--config", "a'; rm -rf $(b) `c`.yaml")
    (line,) = re.findall(r"^torchstone ab .*$", with_words(*words), re.MULTILINE)
    assert shlex.split(line)[4:] == list(words)
    assert "torchstone ab " not in with_words("--config", HOSTILE), "words that cannot be printed are left out"
    assert "torchstone ab " not in with_words("--config", *("x" * 300 for _ in range(4)))
    coarser = comment_text(assessed({"a": (1.2, 1.1, 1.3)}, margin=0.05))
    assert "--config bench.yaml --axis batch_size=1 --margin 5%\n" in coarser, "the margin of ab is 2 %"


def visible_with_fences(text: str) -> str:
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def test_mentions_references_and_addresses_are_broken_but_what_is_typed_stays():
    text = inert(
        "@me a@b.example #1 gh-2 o/r#3 https://x www.x.example a & b $c$ &#64;you\n```\n@me #1 https://x &\n```\n@me"
    )
    assert text == (
        "@&#8203;me a@&#8203;b.example #&#8203;1 gh-&#8203;2 o/r#&#8203;3 https:&#8203;//x www&#8203;.x.example "
        "a &amp; b <span>$</span>c<span>$</span> &amp;#&#8203;64;you\n```\n@me #1 https://x &\n```\n@&#8203;me"
    )


def test_a_comment_of_a_thousand_cases_has_room_and_a_link():
    many = {f"{'long name ' * 12}{number}/{HOSTILE}": (OPEN, SAME)[number % 2] for number in range(1000)}
    found = assessed(many, more={"trials_to_settle": 20})
    text = comment_text(found, link=LINK)
    assert 20_000 < len(text.encode()) <= MOST_BYTES
    assert text.endswith(f"[All results]({LINK})\n")
    assert re.search(r"\d+ more rows are in the summary of the job", text)
    assert len(summary_text(found).encode()) <= 2**20
    assert "All results" not in comment_text(STATES["slower"](), link=LINK), "all is there"


def test_the_summary_of_a_job_shows_every_verdict_at_once():
    text = summary_text(STATES["slower, several"]())
    assert sum(line.startswith("| a/") for line in visible(text)) == 12


@pytest.mark.parametrize("key", ["", "a b", "--", "a--b", "x" * 65, "-->", "ä"])
def test_a_key_that_could_end_the_hidden_line_is_refused(key):
    with pytest.raises(UsageError, match="--key"):
        marker(key)

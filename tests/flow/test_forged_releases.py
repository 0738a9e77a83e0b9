"""Reports and releases that somebody changed, with every hash made to fit: `verify` does not end with 0."""

import importlib.metadata
import json
import re
import shutil

import pytest
from reported import a_swept_run
from stored import store

from torchstone.cli import main
from torchstone.core.charts import drawing
from torchstone.report.rendering import formats

RUN_ID = "20261121-100000-abcd"
PAGE = f"reports/{RUN_ID}.html"
pytestmark = pytest.mark.skipif("html" not in formats(), reason="there are no HTML reports")


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A release of three cases."""
    folder = tmp_path_factory.mktemp("released")
    store(folder, [a_swept_run()])
    assert main(["release", RUN_ID, "--output", str(folder / "results"), "--output-dir", str(folder)]) == 0
    return folder / "results"


@pytest.fixture
def results(released, tmp_path):
    return shutil.copytree(released, tmp_path / "results")


def verified(results, capfd, code, *more):
    """Seal the release, verify it, and return what is told."""
    assert main(["manifest", str(results)]) == 0
    capfd.readouterr()
    ended = main(["verify", str(results), "--json", *more])
    (found,) = json.loads(capfd.readouterr().out)["files"]
    assert ended == code, found
    return found


def figure_of(results):
    return min((results / "figures" / RUN_ID).glob("*.svg"))


def named(path, results):
    return path.relative_to(results).as_posix()


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert re.search(old, text), old
    path.write_text(re.sub(old, lambda _: new, text, count=1), encoding="utf-8")


def test_what_was_released_is_compared_whole(results, capfd):
    found = verified(results, capfd, 0)
    assert (found["faults"], found["uncompared"]) == ([], [])
    assert [note for note in found["notes"] if "the authors' own words" in note]


def test_what_is_written_is_one_file_or_one_folder(results, refused, tmp_path, capfd):
    page, anew = str(results / PAGE), str(tmp_path / "page.html")
    assert main(["verify", page, "--output", anew]) == 0
    assert anew in capfd.readouterr().out.replace("\n", "").replace(" ", "")
    assert "exists" in refused("verify", page, "--output", anew)
    assert "--output takes one file" in refused("verify", page, str(results), "--output", str(tmp_path / "other"))
    assert "add --output PATH" in refused("verify", page, "--open")


def test_a_run_without_its_record(results, capfd):
    """Record and claims are taken out: any report could stand there."""
    (results / "records" / f"{RUN_ID}.jsonl").unlink()
    (results / "claims" / f"{RUN_ID}.json").unlink()
    faults = verified(results, capfd, 1)["faults"]
    left = {
        named(path, results) for name in ("reports", "figures", "environment")
        for path in (results / name).rglob("*") if path.is_file()
    }  # fmt: skip
    without = {fault.partition(": ")[0] for fault in faults if fault.endswith("no record here from which it follows")}
    assert without == left
    assert len(left) > 5


def test_a_file_of_ones_own_is_named(results, capfd):
    for number in range(8):
        (results / f"mine{number}.csv").write_text("a,b\n")
    found = verified(results, capfd, 4)
    assert found["uncompared"] == [f"mine{number}.csv" for number in range(8)]
    assert main(["verify", str(results)]) == 4
    told = " ".join(capfd.readouterr().out.split())
    assert "what was compared follows from its record" in told
    assert "8 files were not compared with it, or only in part" in told


IN_A_PICTURE = {
    "a script": ("</svg>", "<script>document.title = 1</script></svg>"),
    "a style": ("</svg>", "<style>rect { opacity: 0 }</style></svg>"),
    "a handler": ("<svg ", '<svg onload="document.title = 1" '),
    "foreign content": ("</svg>", "<foreignObject><p>10X</p></foreignObject></svg>"),
    "a remote picture": ("</svg>", '<image href="https://example.com/x.png"/></svg>'),
    "an address": ("</svg>", '<a href="javascript:alert(1)"><text></text></a></svg>'),
    "all of it unseen": ("<g ", '<g opacity="0" '),
    "none of it there": ("<g ", '<g display="none" '),
    "bars of one's own": ("</svg>", '<path d="M0,0h99v99z" fill="red"/></svg>'),
    "a comment": ("</svg>", "<!--[if IE]><script></script><![endif]--></svg>"),
}


@pytest.mark.parametrize("what", IN_A_PICTURE)
@pytest.mark.parametrize("where", ["page", "figure"])
def test_what_is_put_into_a_picture_is_never_called_compared_and_not_in_what_is_written(
    results, tmp_path, capfd, where, what
):
    path = results / PAGE if where == "page" else figure_of(results)
    true = path.read_bytes()
    edit(path, *IN_A_PICTURE[what])
    name = named(path, results)
    assert name in verified(results, capfd, 4, "--output", str(tmp_path / "anew"))["uncompared"]
    assert (tmp_path / "anew" / name).read_bytes() == true
    assert main(["verify", str(tmp_path / "anew")]) == 0


def test_a_new_picture_above_the_headline(results, capfd):
    edit(results / PAGE, "<main[^>]*>", '<main id="main" tabindex="-1"><svg><path d="M0,0h99v99z"/></svg>')
    assert PAGE in verified(results, capfd, 4)["uncompared"]


def test_a_blank_in_a_picture_switches_off_nothing(results, capfd):
    edit(figure_of(results), "<svg ", "<svg  ")
    edit(results / "reports" / f"{RUN_ID}.md", "Fastest", "Slowest")
    for path in (results / "reports").glob("*.pdf"):
        path.write_bytes(b"%PDF-1.4 forged")
    found = verified(results, capfd, 1)
    assert [fault.partition(": ")[0] for fault in found["faults"]] == [f"reports/{RUN_ID}.md"]
    assert {named(figure_of(results), results), f"reports/{RUN_ID}.pdf"} <= set(found["uncompared"])


# ── another version ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def released_before(tmp_path_factory):
    """The same release as another version would have written it, which is here of the same texts."""
    folder = tmp_path_factory.mktemp("before")
    store(folder, [a_swept_run()])
    known = importlib.metadata.version
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.metadata.version", lambda name: "0.0.9" if name == "torchstone" else known(name))
        assert main(["release", RUN_ID, "--output", str(folder / "results"), "--output-dir", str(folder)]) == 0
    return folder / "results"


@pytest.fixture
def older(released_before, tmp_path):
    return shutil.copytree(released_before, tmp_path / "older")


def test_who_says_another_version_gets_no_lesser_check(older, capfd):
    found = verified(older, capfd, 0)
    assert any(note.startswith("written by torchstone 0.0.9, verified by ") for note in found["notes"])
    assert found["uncompared"] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</h1>", "</h1><p>Ten times faster.</p>", "the first: text “Ten times faster.” does not follow"),
        ("<table", "<table hidden", "its texts follow; its pictures, styles and scripts are not those written here"),
        ("</body>", "<script>document.title = 1</script></body>", "its texts follow; its pictures, styles and scripts"),
        ("<meta http-equiv[^>]*>", "", "its texts follow; its pictures, styles and scripts are not those written here"),
        ("</main>", "<table><tr><td>10X</table></main>", "the first: table cell “10X” does not follow"),
    ],
)
def test_what_another_version_may_have_written_is_named_and_never_called_compared(older, capfd, old, new, said):
    edit(older / PAGE, old, new)
    found = verified(older, capfd, 4)
    assert found["uncompared"] == [PAGE]
    assert any(said in note for note in found["notes"]), found["notes"]


def test_its_other_files_are_named_where_they_are_not_as_they_are_written_here(older, capfd):
    path = older / "reports" / f"{RUN_ID}.md"
    path.write_text("ten times faster\n")
    edit(figure_of(older), "<svg ", "<svg  ")
    found = verified(older, capfd, 4)
    assert found["uncompared"] == [f"reports/{RUN_ID}.md", named(figure_of(older), older)]


# ── other fonts ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def _other_fonts(monkeypatch):
    """Pictures are drawn as on a machine whose sans-serif is another font."""
    usual = drawing._drawn

    def drawn(spec: bytes) -> str:
        return usual(spec.replace(b'"sans-serif"', b'"monospace"')).replace('"monospace"', '"sans-serif"')

    monkeypatch.setattr(drawing, "_drawn", drawn)


@pytest.mark.usefixtures("_other_fonts")
def test_other_fonts_are_no_fault(results, capfd):
    found = verified(results, capfd, 4)
    assert found["faults"] == []
    assert {PAGE, named(figure_of(results), results)} <= set(found["uncompared"])
    assert not [name for name in found["uncompared"] if name.endswith((".md", ".json", ".csv"))]

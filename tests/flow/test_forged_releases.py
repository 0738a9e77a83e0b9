"""Reports and releases that somebody changed, with every hash made to fit: `verify` does not end with 0."""

import importlib.metadata
import json
import re
import shutil
import zipfile

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


def verified(results, capfd, code):
    """Seal the release, verify it, and return what is told."""
    assert main(["manifest", str(results)]) == 0
    capfd.readouterr()
    ended = main(["verify", str(results), "--json"])
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


def move_a_label(results):
    path = figure_of(results)
    text = path.read_text(encoding="utf-8")
    moved = re.sub(r'(<text[^>]*transform="translate\()-?[\d.]+', r"\g<1>77", text, count=1)
    assert moved != text
    path.write_text(moved, encoding="utf-8")


def test_what_was_released_is_compared_whole(results, capfd):
    found = verified(results, capfd, 0)
    assert (found["faults"], found["uncompared"]) == ([], [])
    assert [note for note in found["notes"] if "the authors' own words" in note]


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
def test_nothing_is_drawn_into_a_picture(results, capfd, where, what):
    path = results / PAGE if where == "page" else figure_of(results)
    edit(path, *IN_A_PICTURE[what])
    faults = verified(results, capfd, 1)["faults"]
    assert any(fault.startswith(f"{named(path, results)}: ") for fault in faults), faults


def test_a_new_picture_above_the_headline(results, capfd):
    edit(results / PAGE, "<main[^>]*>", '<main id="main" tabindex="-1"><svg><path d="M0,0h99v99z"/></svg>')
    faults = verified(results, capfd, 1)["faults"]
    assert f"{PAGE}: markup, styles or scripts are not those that this version of torchstone writes" in faults


def test_what_is_moved_is_not_called_compared(results, capfd):
    """Labels of an axis, whose places tell how marks are read: texts and marks are as they were."""
    move_a_label(results)
    assert named(figure_of(results), results) in verified(results, capfd, 4)["uncompared"]


def test_a_blank_in_a_picture_is_a_fault_and_switches_off_nothing(results, capfd):
    edit(figure_of(results), "<svg ", "<svg  ")
    faults = verified(results, capfd, 1)["faults"]
    assert faults == [f"{named(figure_of(results), results)}: its elements are not those that the record gives"]


def test_files_that_a_moved_label_leaves_uncompared_are_named(results, capfd):
    move_a_label(results)
    forged = [path for path in (results / "reports").rglob("*") if path.suffix in (".pdf", ".png")]
    assert forged
    for path in forged:
        path.write_bytes(path.read_bytes()[:8] + b" forged \xff")
    found = verified(results, capfd, 4)
    assert {named(path, results) for path in forged} <= set(found["uncompared"])
    assert all(any(note.startswith(f"{name}: ") for note in found["notes"]) for name in found["uncompared"])


def test_texts_of_slides_are_compared_though_pictures_are_laid_out_differently(results, capfd):
    move_a_label(results)
    (slides,) = (results / "reports").glob("*.pptx")
    with zipfile.ZipFile(slides) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = next(name for name, data in members.items() if b"Fastest" in data)
    with zipfile.ZipFile(slides, "w") as file:
        for one, data in members.items():
            file.writestr(one, data.replace(b"Fastest", b"Slowest") if one == name else data)
    assert verified(results, capfd, 1)["faults"] == [
        f"{named(slides, results)}: its texts are not those that the record gives"
    ]
    slides.write_bytes(b"%PDF-1.4 forged")
    assert verified(results, capfd, 1)["faults"] == [f"{named(slides, results)}: not a file of its kind"]


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
        ("<table", "<table hidden", "the first: markup, styles or scripts are not those"),
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
    move_a_label(older)
    found = verified(older, capfd, 4)
    assert found["uncompared"] == [named(figure_of(older), older), f"reports/{RUN_ID}.md"]


def test_its_headline_is_compared(older, capfd):
    edit(older / PAGE, "Fastest", "Slowest")
    assert any(": headline: the record gives “" in fault for fault in verified(older, capfd, 1)["faults"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</body>", "<script>document.title = 1</script></body>", "a script that this version of torchstone does not"),
        ("</body>", "<style>table { display: none }</style></body>", "a style that this version of torchstone does"),
        ("<table", '<table style="display:none"', "an attribute style that this version of torchstone does not write"),
        ("<table", '<table onclick="x()"', "a handler onclick in <table>"),
        ("<meta http-equiv[^>]*>", "", "its beginning (encoding, Content-Security-Policy) is not the one"),
        ('<meta charset="utf-8">', '<meta charset="iso-2022-jp">', "its beginning (encoding, Content-"),
        (
            "</body>",
            '<meta http-equiv="refresh" content="0;url=//example.com"></body>',
            "a <meta http-equiv='refresh'>",
        ),
        ("</body>", "<iframe></iframe></body>", "an element <iframe>: torchstone writes none"),
        ("</body>", '<a href="https://example.com">x</a></body>', "an address 'https://example.com' in <a>"),
        (
            "</body>",
            "<p a=='><img src=x onerror=alert(1)>'></p></body>",
            'markup that no page of torchstone has: "<p a=',
        ),
        ("</body>", "<!-- --></body>", "markup that no page of torchstone has: '<!-- -->"),
        (
            '"application/octet-stream"',
            '"application/octet-stream" data-x="1">&lt;</script x><script',
            "a <script> that",
        ),
    ],
)
def test_another_version_is_no_excuse(older, capfd, old, new, said):
    edit(older / PAGE, old, new)
    faults = verified(older, capfd, 1)["faults"]
    assert any(fault.startswith(f"{PAGE}: ") and said in fault for fault in faults), faults


@pytest.mark.parametrize("new", [
    "<script>x()</script></svg>", '<g xmlns:a="http://www.w3.org/1999/xlink" a:href="javascript:x()"></g></svg>',
    '<path onclick="x()"/></svg>', '<path style="fill:red"/></svg>', '<path fill="url(//example.com/a)"/></svg>',
    "<title><script>x()</script></title></svg>", "<![CDATA[x]]></svg>",
])  # fmt: skip
@pytest.mark.parametrize("where", ["page", "figure"])
def test_what_acts_in_a_picture_of_another_version(older, capfd, where, new):
    path = older / PAGE if where == "page" else figure_of(older)
    edit(path, "</svg>", new)
    faults = verified(older, capfd, 1)["faults"]
    assert any(fault.startswith(f"{named(path, older)}: ") for fault in faults), faults


@pytest.mark.parametrize(
    "before", ['<!DOCTYPE svg [<!ENTITY a "b">]>', '<?xml-stylesheet href="//example.com"?>', "\ufeff<"]
)
def test_what_stands_before_a_picture(older, capfd, before):
    path = figure_of(older)
    path.write_text(before + path.read_text(encoding="utf-8"), encoding="utf-8")
    faults = verified(older, capfd, 1)["faults"]
    assert any(fault.startswith(f"{named(path, older)}: markup that no page") for fault in faults), faults


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

"""Every page, asked without a socket: what it shows, what it refuses, and that nothing of a record executes."""

import html
import re
import shutil
from html.parser import HTMLParser

import msgspec
import pytest
from build import a_case, a_finding, a_run, a_trial
from results import a_memory_row
from stored import a_stored_run, case, machine, store

from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.machine import Host
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status
from torchstone.storage.index import sync

pytest.importorskip("starlette", reason="the pages need starlette (pip install 'torchstone[serve]')")

from asgi import get

from torchstone.analysis.memory_fit import MemoryAnswer
from torchstone.cli._output import document_of
from torchstone.report.pages.guard import SECURITY_HEADERS, Guard
from torchstone.report.pages.server import application
from torchstone.report.pages.site import Site
from torchstone.report.pages.store import Store
from torchstone.report.results import Result, result_path, save_result

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\"'\u202e{{7*7}}"
ADDRESSES = (
    "/runs", "/history", "/findings", "/runs/ID", "/runs/ID?every=1", "/runs/ID/pictures", "/history/CASE",
    "/compare?a=ID&b=OTHER",
)  # fmt: skip


def app_of(folder, token=None):
    return application(Site(Store(folder), document_of), Guard((), token, 8642))


def stored(folder, *runs: Run):
    store(folder, runs)
    assert sync(folder) == ()
    return app_of(folder)


def ten_runs():
    """A case in ten runs, the last five with a newer torch and 10 % faster; a second case in every other run."""
    first, second = case(), case(batch_size=64)
    warned = a_finding("throttled", Severity.WARNING, "the clock fell", "cool it", second.case_id)
    for number in range(10):
        newer = number >= 5
        cases = [(first, 110.0 if newer else 100.0)] + ([(second, 300.0)] if number % 2 else [])
        yield a_stored_run(
            number, cases, machine(torch="2.13.0" if newer else "2.12.0"), noise=0.002, name=f"night-{number}",
            findings=[warned] if number % 2 else [],
        )  # fmt: skip


@pytest.fixture
def nights(tmp_path):
    runs = list(ten_runs())
    return stored(tmp_path, *runs), [run.head.run_id for run in runs]


class Tags(HTMLParser):
    """What a browser makes of a page: its tags, and their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag, name):
        return [attributes.get(name) for each, attributes in self.tags if each == tag]


def test_the_list_has_the_newest_first_and_every_answer_its_headers(nights):
    app, ids = nights
    reply = get(app, "/runs")
    assert reply.status == 200
    shown = re.findall(r'name="run" value="([^"]+)"', reply.text)
    assert shown == ids[::-1]
    assert reply.text.count('suspect">SUSPECT<') == 5
    for address in ("/runs", "/nothing", "/static/style.css", "/static/nothing", "/runs/none", "/compare"):
        headers = get(app, address).headers
        assert {name: headers.get(name) for name in SECURITY_HEADERS} == dict(SECURITY_HEADERS), address


def test_the_front_leads_to_the_runs_and_empty_fields_leave_the_address(nights):
    app, _ = nights
    assert get(app, "/").headers["location"] == "/runs"
    reply = get(app, "/runs?q=&model=bert&task=&run=x")
    assert (reply.status, reply.headers["location"]) == (303, "/runs?model=bert&run=x")


def test_filters_and_boxes_that_stay_ticked(nights):
    app, ids = nights
    page = get(app, f"/runs?q=night-3&run={ids[0]}").text
    assert re.findall(r'value="([^"]+)"[^>]* checked', page) == [ids[0]]
    assert re.findall(r'name="run" value="([^"]+)"', page) == [ids[0], ids[3]]
    assert "No run matches" in get(app, "/runs?q=nothing").text
    assert re.search(r'<option value="SUSPECT" selected>', get(app, "/runs?verdict=SUSPECT").text)


def test_a_page_begins_behind_the_one_before(tmp_path):
    runs = [a_stored_run(number, [(case(), 100.0)], machine(), trials=1) for number in range(60)]
    app = stored(tmp_path, *runs)
    first = get(app, "/runs").text
    key = re.search(r'name="before" value="([^"]+)"', first)
    assert key
    second = get(app, f"/runs?before={key[1]}").text
    shown = [re.findall(r'name="run" value="([^"]+)"', page) for page in (first, second)]
    assert (len(shown[0]), len(shown[1])) == (50, 10)
    assert len({*shown[0], *shown[1]}) == 60
    assert 'name="before"' not in second


def test_a_run_by_its_id_or_what_it_begins_with(nights):
    app, ids = nights
    page = get(app, f"/runs/{ids[9]}")
    assert page.status == 200
    assert "night-9" in page.text
    assert "the clock fell" in page.text
    assert get(app, "/runs/latest").headers["location"] == f"/runs/{ids[9]}"
    assert get(app, f"/runs/{ids[9][:-2]}").headers["location"] == f"/runs/{ids[9]}"
    several = get(app, "/runs/2026")
    assert several.status == 404
    assert ids[0] in several.text
    assert get(app, "/runs/zzz").status == 404
    assert len(get(app, f"/runs/{ids[9]}?every=1").text) > len(page.text)


def test_a_history_tells_what_changed_with_it(nights):
    app, ids = nights
    case_id = case().case_id
    page = get(app, f"/history/{case_id}").text
    assert "better since" in page
    assert "torch 2.12.0 → 2.13.0" in page
    assert f'href="/runs/{ids[5]}"' in page
    listed = get(app, "/history").text
    assert listed.count('<th scope="row">') == 2
    assert f'href="/history/{case_id}"' in listed
    assert get(app, "/history/000000000000").status == 404
    wrong = get(app, f"/history/{case_id}?figure=thruput")
    assert wrong.status == 404
    assert "Did you mean &#39;throughput&#39;?" in wrong.text


def test_a_comparison_has_a_short_address_and_shows_what_differs(nights):
    app, ids = nights
    there = get(app, f"/compare?run={ids[0]}&run={ids[9]}&model=&q=").headers["location"]
    assert there == f"/compare?a={ids[0]}&b={ids[9]}"
    page = get(app, there).text
    assert "2.12.0" in page
    assert "2.13.0" in page
    assert "better" in page
    assert not re.search(r'<th scope="row">processor</th>', page), "the same in both"
    assert re.search(r'<th scope="row">processor</th>', get(app, there + "&all=1").text)


def test_a_comparison_needs_two_runs_that_are_there_and_26_at_most(nights):
    app, ids = nights
    many = get(app, "/compare?" + "&".join(f"run={number}" for number in range(27)))
    assert (many.status, "27 runs are ticked: 26 at most" in many.text) == (400, True)
    assert get(app, "/compare").status == 400
    assert get(app, f"/compare?a={ids[0]}&b={ids[0]}").status == 400
    reply = get(app, f"/compare?a={ids[0]}&b=none")
    assert (reply.status, "no run none" in reply.text) == (404, True)


def test_runs_without_a_case_in_common_still_show_what_differs(tmp_path):
    runs = [a_stored_run(n, [(case(model=f"hf:m{n}"), 100.0)], machine()) for n in range(2)]
    page = get(stored(tmp_path, *runs), "/compare?a={}&b={}".format(*(run.head.run_id for run in runs))).text
    assert "no case in common" in page
    assert "m0" in page
    assert "m1" in page


def test_no_file_beside_the_records_is_read(nights, tmp_path, monkeypatch):
    app, ids = nights
    foreign = tmp_path / "elsewhere"
    foreign.mkdir()
    (foreign / "secret.jsonl").write_bytes((tmp_path / "records" / f"{ids[0]}.jsonl").read_bytes())
    monkeypatch.chdir(foreign)
    for word in ("secret.jsonl", f"{foreign}/secret.jsonl", "../records", "."):
        assert get(app, f"/compare?a={ids[1]}&b={word}").status == 404
        assert get(app, f"/runs/{word}").status in (303, 404)
    for address in ("/static/../site.py", "/static/..%2fsite.py", "/static/%2e%2e/site.py", "/static//etc/passwd"):
        assert get(app, address).status == 404


def test_results_that_are_no_runs_are_listed_and_shown_but_no_link_is_followed(tmp_path):
    app = stored(tmp_path, *ten_runs())
    assert "No results" in get(app, "/results").text
    save_result(
        Result("memory", MemoryAnswer((msgspec.structs.replace(a_memory_row(), model=EVIL, card=EVIL),), (), {})),
        tmp_path,
    )
    result_path(tmp_path, "cost").symlink_to(result_path(tmp_path, "memory"))
    listed, page = get(app, "/results").text, get(app, "/results/memory").text
    assert Tags(listed).all("a", "href").count("/results/memory") == 1
    assert "/results/cost" not in listed
    for text in (listed, page):
        assert "alert" not in "".join(Tags(text).all("script", "src") or [""])
        assert "<script>alert" not in text
        assert not Tags(text).all("img", "onerror")
    assert html.escape(EVIL.split(chr(0x202E), maxsplit=1)[0], quote=True)[:20] in page
    assert get(app, "/results/cost").status == 404
    assert get(app, "/results/../runs").status == 404
    result_path(tmp_path, "memory").write_text("{}")
    assert "not a torchstone result" in get(app, "/results").text


def test_findings_of_all_runs(nights):
    app, ids = nights
    page = get(app, "/findings").text
    assert page.count('<th scope="row">throttled</th>') == 5
    assert page.index(ids[9]) < page.index(ids[1])
    assert "No finding matches" in get(app, "/findings?severity=error").text


def evil_runs():
    """Two runs in which every text that a record holds is hostile."""
    bad = a_case({"batch_size": 16, "precision": EVIL}, model=f"net:{EVIL}", data=EVIL)
    host = Host(EVIL, EVIL, EVIL, 4, 8, 2**30)
    on = msgspec.structs.replace(machine(), host=host, software={EVIL: EVIL, "torch": EVIL}, settings={EVIL: EVIL})
    finding = a_finding("drift", Severity.ERROR, EVIL, EVIL, bad.case_id)
    for number in range(2):
        run = a_stored_run(number, [(bad, 100.0 + number)], on, findings=[finding], name=EVIL, command=(EVIL,))
        failed = msgspec.structs.replace(run.trials[0], outcome=Outcome(Status.CRASHED, EVIL), measurements=())
        yield msgspec.structs.replace(run, trials=(failed, *run.trials[1:]))


@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_that_a_record_holds_becomes_markup_or_turns_text_round(tmp_path, address):
    runs = list(evil_runs())
    app = stored(tmp_path, *runs)
    first, other = (run.head.run_id for run in runs)
    case_id = runs[0].head.plan.cases[0].case_id
    reply = get(app, address.replace("ID", first).replace("OTHER", other).replace("CASE", case_id))
    assert reply.status == 200
    found = Tags(reply.text)
    assert found.all("script", "src") == ["/static/htmx.min.js"]
    assert {src for src in found.all("img", "src") if not src.startswith("/")} == set()
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert "alert(1)" in reply.text, "it is shown"
    assert "\u202e" not in reply.text
    assert "{{7*7}}" in html.unescape(reply.text)
    assert not re.findall(r' style="|javascript:', reply.text)


@pytest.mark.parametrize("trials", [0, 1])
def test_runs_with_hardly_anything_in_them(tmp_path, trials):
    run = a_run([a_trial()] * trials)
    app = stored(tmp_path, run)
    for address in ("/runs", "/history", "/findings", f"/runs/{run.head.run_id}", f"/runs/{run.head.run_id}?every=1"):
        assert get(app, address).status == 200
    assert get(app, f"/history/{a_case().case_id}").status == (200 if trials else 404)


def test_long_names_are_cut_in_lists_and_whole_on_their_own_page(tmp_path):
    long = "n" * 10_000
    run = a_stored_run(1, [(case(model=f"hf:{long}"), 100.0)], machine(), name=long)
    app = stored(tmp_path, run)
    assert len(get(app, "/runs").text) < 20_000
    assert get(app, f"/runs/{run.head.run_id}").status == 200
    assert get(app, f"/runs?q={long}").status == 200


def test_a_store_that_disappears_is_said(nights, tmp_path):
    app, ids = nights
    shutil.rmtree(tmp_path)
    for address in (
        "/runs",
        f"/runs/{ids[0]}",
        f"/runs/{ids[0]}/live",
        "/history",
        "/findings",
        f"/compare?a={ids[0]}&b={ids[1]}",
    ):
        reply = get(app, address)
        assert reply.status == 503, address
        assert "is not there any more" in reply.text
    assert not tmp_path.exists(), "and it is not made again"


def test_an_empty_store_says_what_to_type(tmp_path):
    page = get(app_of(tmp_path), "/runs").text
    assert "torchstone run smoke" in page


def test_a_run_in_progress_tells_how_far_it_is_until_it_ends(tmp_path):
    from torchstone.storage.record_writer import RecordWriter

    run = a_run()
    path = tmp_path / "records" / f"{run.head.run_id}.jsonl"
    with RecordWriter(path, run.head) as writer:
        writer.append(run.trials[0])
        sync(tmp_path)
        app = app_of(tmp_path)
        assert "running" in get(app, "/runs").text
        page = get(app, f"/runs/{run.head.run_id}").text
        assert "1 of 3 trials" in page
        assert 'hx-trigger="every 2s"' in page
        assert 'hx-trigger="every 2s"' not in get(app, f"/runs/{run.head.run_id}?live=0").text
        writer.append(run.trials[1])
        assert "2 of 3 trials" in get(app, f"/runs/{run.head.run_id}/live").text
        assert run.end is not None
        writer.append(run.end)
        assert get(app, f"/runs/{run.head.run_id}/live").headers["hx-refresh"] == "true"
    with Store(tmp_path) as kept:
        app = application(Site(kept, document_of), Guard((), None, 8642))
        page = get(app, f"/runs/{run.head.run_id}").text
    assert "In progress" not in page
    assert "<span>done</span>" in page


def test_a_record_that_cannot_be_read_is_listed(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "<b>.jsonl").write_text("{}\n")
    with Store(tmp_path) as kept:
        page = get(application(Site(kept, document_of), Guard((), None, 8642)), "/runs").text
    assert "Records that cannot be read" in page
    assert "&lt;b&gt;.jsonl" in page


def test_without_the_token_nothing_is_shown(nights, tmp_path):
    app = app_of(tmp_path, "a-token-of-some-length")
    refused = get(app, "/runs")
    assert refused.status == 401
    assert "night" not in refused.text
    went = get(app, "/runs?token=a-token-of-some-length&q=night")
    assert (went.status, went.headers["location"]) == (303, "/runs?q=night")
    shown = get(app, "/runs?q=night", cookie=went.headers["set-cookie"].partition(";")[0])
    assert shown.status == 200


def test_other_names_and_other_methods_are_refused(nights):
    app, _ = nights
    assert get(app, "/runs", host="evil.example:8642").status == 400
    assert get(app, "/runs", method="POST").status == 405
    assert get(app, "/runs", method="HEAD").status == 200


def test_records_stay_as_they_are(nights, tmp_path):
    app, ids = nights
    before = {path: path.read_bytes() for path in (tmp_path / "records").iterdir()}
    for address in ADDRESSES:
        get(app, address.replace("ID", ids[0]).replace("OTHER", ids[1]).replace("CASE", case().case_id))
    assert {path: path.read_bytes() for path in (tmp_path / "records").iterdir()} == before
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} <= {"records", "torchstone.sqlite"}


def test_the_index_is_made_elsewhere_where_the_folder_cannot_be_written(tmp_path, monkeypatch):
    store(tmp_path, list(ten_runs()))
    monkeypatch.setattr("torchstone.storage.database.os.access", lambda path, _mode: path != tmp_path)
    with Store(tmp_path) as kept:
        kept.freshen(hurry=True)
        app = application(Site(kept, document_of), Guard((), None, 8642))
        assert "night-9" in get(app, "/runs").text
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_what_is_served_is_what_was_published():
    """The one library of the browser is htmx as its authors published it."""
    import hashlib

    from torchstone.report.pages.site import STATIC

    (line,) = (STATIC / "htmx.min.js.sha256").read_text().splitlines()
    digest, name = line.split()
    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert "Zero-Clause BSD" in (STATIC / "htmx.LICENSE").read_text()


def test_a_hostile_record_of_no_numbers_is_shown(tmp_path):
    nan = a_trial([float("nan")] * 10, duration_s=1.0)
    run = a_run([nan, a_trial(trial_id="t1", number=1)])
    (tmp_path / "records").mkdir()
    assert run.end is not None
    lines = b"".join(encode(line) + b"\n" for line in (run.head, *run.trials, run.end))
    (tmp_path / "records" / f"{run.head.run_id}.jsonl").write_bytes(lines)
    assert sync(tmp_path) == ()
    assert get(app_of(tmp_path), f"/runs/{run.head.run_id}?every=1").status == 200

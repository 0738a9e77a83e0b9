"""torchstone serve in a real browser: filters, comparison, back, live updates, the keyboard, hostile names, axe."""

import os

import msgspec
import pytest
from build import a_finding, a_run
from served import served
from stored import a_stored_run, case, machine, store

from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.machine import Host
from torchstone.storage.record_writer import RecordWriter

pytest.importorskip("uvicorn", reason="serve needs uvicorn (pip install 'torchstone[serve]')")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
axe_library = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")

CHROMIUM = os.environ.get("TORCHSTONE_CHROMIUM", "/usr/bin/chromium")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(CHROMIUM), reason=f"needs a browser: there is no {CHROMIUM}"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EVIL = "</td><script>document.title='pw'+'ned'</script><img src=x onerror=\"document.title='pw'+'ned'\">\u202eevil"
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def runs():
    """Twelve runs of BERT in training, those of a newer torch faster, every third with ResNet on a card."""
    bert, resnet = case(), case("cuda", model="timm:resnet50", task="infer")
    warned = a_finding("throttled", Severity.WARNING, "the clock fell by 12 %", "cool it", bert.case_id)
    for number in range(12):
        newer = number >= 6
        cases = [(bert, 110.0 if newer else 100.0)] + ([(resnet, 5000.0)] if number % 3 == 0 else [])
        on = machine("cuda" if number % 3 == 0 else "cpu", torch="2.13.0" if newer else "2.12.0")
        yield a_stored_run(number, cases, on, noise=0.002, name=f"night-{number}", findings=[warned] * (number == 4))


def evil_run():
    bad = case(model=f"hf:{EVIL}")
    on = msgspec.structs.replace(machine(), host=Host(EVIL, EVIL, EVIL, 4, 8, 2**30), software={EVIL: EVIL})
    return a_stored_run(
        40, [(bad, 100.0)], on, name=EVIL, findings=[a_finding("drift", Severity.ERROR, EVIL, EVIL, bad.case_id)]
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    store(folder, [*runs(), evil_run()])
    with served(folder) as found:
        yield folder, found.address.rstrip("/")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser, place):
    """A page on which a console error, a failed request or one that leaves the machine fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    faults = []
    found.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    found.on("pageerror", lambda fault: faults.append(str(fault)))
    found.on("requestfailed", lambda asked: faults.append(f"{asked.url}: {asked.failure}"))
    found.on("request", lambda asked: None if asked.url.startswith(place[1]) else faults.append(asked.url))
    found.set_default_timeout(10_000)
    yield found
    context.close()
    # A request that was under way as the page was left is no fault.
    assert [fault for fault in faults if "ERR_ABORTED" not in fault] == []


def names(page):
    return page.locator("tbody th a").all_text_contents()


def listed(page, count):
    """Wait until so many runs are listed."""
    playwright.expect(page.locator("tbody th a")).to_have_count(count)


def test_filter_back_and_forward(page, place):
    page.goto(place[1] + "/")
    assert page.url == place[1] + "/runs"
    every = len(names(page))
    assert every >= 13, "another test adds one that is alive"
    page.get_by_label("Model").select_option("resnet50")
    page.wait_for_url("**/runs?model=resnet50")
    listed(page, 4)
    assert names(page) == ["night-9", "night-6", "night-3", "night-0"]
    page.get_by_label("Search").fill("night-6")
    listed(page, 1)
    page.go_back()
    listed(page, 4)
    page.go_back()
    listed(page, every)
    page.go_forward()
    listed(page, 4)


def test_compare_what_was_ticked_before_and_after_a_filter(page, place):
    page.goto(place[1] + "/runs")
    page.get_by_role("row", name="night-11").get_by_role("checkbox").check()
    page.get_by_label("Search").fill("night-2")
    listed(page, 2)
    assert names(page) == ["night-11", "night-2"], "what is ticked stays"
    page.get_by_role("row", name="night-2").get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?a=*&b=*")
    assert page.get_by_role("heading", level=1).text_content() == "Comparison of 2 runs"
    recorded = page.get_by_role("region", name="What is recorded of each run")
    assert recorded.get_by_role("row", name="torch 2.13.0 2.12.0").count() == 1
    assert recorded.get_by_role("row", name="governor").count() == 0
    page.get_by_role("link", name="Show what is the same").click()
    page.wait_for_url("**all=1**")
    assert recorded.get_by_role("row", name="processor").count() == 1
    page.go_back()
    page.go_back()
    assert page.url.startswith(place[1] + "/runs")


def test_without_javascript(browser, place):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(place[1] + "/runs")
    page.get_by_label("Search").fill("night-7")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url(place[1] + "/runs?q=night-7")
    assert names(page) == ["night-7"]
    page.get_by_role("checkbox").check()
    page.get_by_label("Search").fill("night-8")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**/runs?*q=night-8*")
    assert names(page) == ["night-7", "night-8"]
    page.get_by_role("row", name="night-8").get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?a=*")
    context.close()


def test_the_keyboard_alone(page, place):
    page.goto(place[1] + "/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id || location.hash") in ("main", "#main")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("night-3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?q=night-3")
    page.get_by_role("checkbox").first.focus()
    page.keyboard.press("Space")
    assert page.get_by_role("checkbox").first.is_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/2026*")
    outline = page.evaluate("getComputedStyle(document.querySelector('a.skip')).position")
    assert outline == "absolute"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 40)"))
        outlined = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        assert page.evaluate(f"document.activeElement === document.body || {outlined}"), "the focus is seen"
    assert {"Every figure", "Runs", "History", "Findings"} <= seen


def test_a_run_is_followed_until_it_ends(page, place):
    folder, address = place
    run = a_run()
    head = msgspec.structs.replace(run.head, run_id="20261231-live", name="live", started_utc="2026-12-31T10:00:00Z")
    with RecordWriter(folder / "records" / "20261231-live.jsonl", head) as writer:
        page.goto(address + "/runs")
        for _ in range(50):  # the index is looked after every two seconds
            if page.locator(".running").count():
                break
            page.wait_for_timeout(100)
            page.reload()
        assert page.locator(".running").count() == 1
        page.get_by_role("link", name="live", exact=True).click()
        page.get_by_text("0 of 3 trials").wait_for()
        assert not page.get_by_text("Nothing was measured").is_visible(), "the index is behind"
        for number, trial in enumerate(run.trials, 1):
            writer.append(trial)
            page.get_by_text(f"{number} of 3 trials").wait_for(timeout=8000)
        assert run.end is not None
        writer.append(run.end)
        page.get_by_role("heading", name="In progress").wait_for(state="detached", timeout=8000)
    page.get_by_text("done", exact=True).wait_for()


def addresses(folder):
    ids = sorted(path.stem for path in (folder / "records").iterdir())
    evil = next(one for one in ids if "000040" in one)
    bert, bad = case().case_id, evil_run().head.plan.cases[0].case_id
    return {
        "runs": "/runs", "run": f"/runs/{ids[4]}", "pictures": f"/runs/{ids[4]}/pictures",
        "evil-pictures": f"/runs/{evil}/pictures", "every": f"/runs/{ids[4]}?every=1", "evil": f"/runs/{evil}?every=1",
        "history": "/history", "case": f"/history/{bert}", "evil-case": f"/history/{bad}",
        "findings": "/findings", "compare": f"/compare?a={ids[0]}&b={ids[9]}&all=1",
        "evil-compare": f"/compare?a={ids[0]}&b={evil}&c={ids[9]}", "nothing": "/nothing", "none": "/runs?q=xyzzy",
    }  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_fits_executes_nothing_of_a_record_and_axe_finds_no_serious_fault(
    browser, place, size, dark, tmp_path
):
    folder, address = place
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"executed: {dialog.message}"))
    shots = os.environ.get("TORCHSTONE_SCREENSHOTS")
    for name, path in addresses(folder).items():
        page.goto(address + path)
        assert "pwned" not in page.title(), name
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} pixels too wide"
        found = axe_library.Axe().run(page).response["violations"]
        serious = {
            one["id"]: [node["html"][:200] for node in one["nodes"]][:3]
            for one in found
            if one["impact"] in ("serious", "critical")
        }
        assert serious == {}, name
        if shots:
            page.screenshot(path=f"{shots}/{name}-{size}-{'dark' if dark else 'light'}.png", full_page=True)
    context.close()


def test_the_store_goes_while_the_page_is_open(browser, tmp_path):
    folder = tmp_path / "store"
    store(folder, list(runs()))
    with served(folder) as found:
        page = browser.new_page()
        page.goto(found.address + "runs")
        folder.rename(tmp_path / "moved")
        page.get_by_role("link", name="night-3").click()
        page.get_by_text("is not there any more").wait_for()
        (tmp_path / "moved").rename(folder)
        page.reload()
        page.get_by_role("heading", name="night-3").wait_for()
        assert page.get_by_text("is not there any more").count() == 0
        page.close()


def test_the_picture_of_a_history_is_drawn_on_the_server(page, place):
    pytest.importorskip("vl_convert", reason="pictures need vl-convert (pip install 'torchstone[charts]')")
    page.goto(f"{place[1]}/history/{case().case_id}")
    image = page.locator("main img")
    image.scroll_into_view_if_needed()
    playwright.expect(image).to_have_js_property("complete", True, timeout=30_000)
    assert image.evaluate("image => image.naturalWidth") > 300
    assert image.get_attribute("alt")


def test_pictures_of_a_run_come_when_it_is_scrolled_to_them(page, place):
    pytest.importorskip("vl_convert", reason="pictures need vl-convert (pip install 'torchstone[charts]')")
    run_id = addresses(place[0])["run"]
    page.set_viewport_size({"width": 1280, "height": 300})
    page.goto(place[1] + run_id)
    assert page.locator("#pictures img").count() == 0
    page.locator("#pictures").scroll_into_view_if_needed()
    image = page.locator("#pictures img").first
    image.scroll_into_view_if_needed()
    playwright.expect(image).to_have_js_property("complete", True, timeout=30_000)
    assert image.evaluate("image => image.naturalWidth") > 300
    assert page.url == place[1] + run_id

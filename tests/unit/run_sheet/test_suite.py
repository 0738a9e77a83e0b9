from types import SimpleNamespace
from typing import Any

import pytest
from run_sheet import suite

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="3" failures="1" tests="6">
<testcase classname="tests.unit.test_a" name="test_good" time="0.1"/>
<testcase classname="tests.unit.test_a" name="test_left_out" time="0.0"><skipped message="no data"/></testcase>
<testcase classname="tests.unit.test_b" name="test_no_device" time="0.2">
<failure message="assert 'cuda' == 'cpu'">E</failure></testcase>
<testcase classname="" name="tests.unit.test_c" time="0.0"><error message="collection failure">
E   ModuleNotFoundError: No module named 'never_heard_of_it'</error></testcase>
<testcase classname="" name="tests.unit.test_d" time="0.0"><error message="collection failure">
E   ModuleNotFoundError: No module named 'json'</error></testcase>
<testcase classname="" name="tests.unit.test_e" time="0.0"><error message="collection failure">
E   ModuleNotFoundError: No module named 'nowhere.at.all'</error></testcase>
</testsuite></testsuites>"""


def test_a_library_that_is_lacking_fails_no_test(tmp_path):
    report = tmp_path / "tests.xml"
    report.write_text(REPORT)
    told = suite.counted(report)
    assert (told["passed"], told["skipped"], told["without_a_library"]) == (1, 1, 2)
    assert told["absent"] == ["never_heard_of_it", "nowhere.at.all"]
    # One that is there, and still not found, is a mistake of the tree.
    assert told["failures"] == ["tests.unit.test_b::test_no_device", "tests.unit.test_d"]
    assert told["failed"] == 2


def test_the_suite_is_called_without_the_pins_of_its_own_environment(tmp_path):
    words = suite.words(["tests/unit"], tmp_path / "tests.xml")
    assert "minversion=6.0" in words
    assert "filterwarnings=" in words
    assert "not alone and not long" in words


CUT = """
tests/unit/plugins/test_a.py::test_name
[gw0] [  1%] PASSED tests/unit/plugins/test_a.py::test_good[a-b]
[gw3] [  1%] SKIPPED tests/unit/plugins/test_a.py::test_left_out
[gw1] [  2%] FAILED tests/unit/plugins/test_b.py::test_no_device
[gw1] [  2%] ERROR tests/unit/plugins/test_b.py::test_no_fixture
tests/contract/test_c.py::test_alone PASSED                              [  3%]
FAILED tests/unit/plugins/test_b.py::test_no_device - assert 'cuda' == 'cpu'
[gw2] [  3%] PAS"""


def test_a_run_that_was_cut_tells_what_was_counted(tmp_path):
    noted: dict[str, Any] = {}
    here: Any = SimpleNamespace(
        folder=tmp_path, quick=False, note=noted.__setitem__,
        python=lambda *_, **__: SimpleNamespace(code=-9, out=CUT, took_s=160.2, last_line=""),
    )  # fmt: skip
    suite.run(here)
    assert (noted["passed"], noted["failed"], noted["skipped"]) == (2, 2, 1)
    assert noted["failures"].split("; ")[0] == "tests/unit/plugins/test_b.py::test_no_device"
    assert noted["cut"] == "after 160 s"
    nothing = SimpleNamespace(code=4, out="ERROR: usage: no such option", took_s=1.0, last_line="no such option")
    here.python = lambda *_, **__: nothing
    with pytest.raises(RuntimeError, match="no such option"):
        suite.run(here)


def test_what_a_device_concerns_comes_first_and_nothing_twice():
    folders = suite.whole(suite.ROOT)
    assert folders[:3] == ["tests/unit/plugins", "tests/unit/execution", "tests/contract"]
    assert len(folders) == len(set(folders))
    there = {f"tests/unit/{path.name}" for path in (suite.ROOT / "tests/unit").iterdir() if any(path.glob("**/test_*"))}
    assert there <= set(folders)

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

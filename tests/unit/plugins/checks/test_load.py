"""loadgen_invalid: LoadGen's own verdict, in its words."""

from build import a_run
from loads import a_load, a_load_case

from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.plugins import registry


def look(*trials, case):
    return list(registry.load("checks", "loadgen_invalid").look(a_run(trials, cases=[case], procedure=Procedure())))


def test_a_case_without_a_valid_load_is_an_error_with_loadgens_words():
    case = a_load_case(100.0)
    bad = a_load(case, 500, facts={"loadgen_errors": ("Ending early: Too many outstanding queries",)})
    (found,) = look(bad, bad, case=case)
    assert found.severity == Severity.ERROR
    assert found.message == (
        "LoadGen: INVALID in 2 of 2 loads: Performance constraints satisfied : NO; its errors: Ending early: Too many "
        "outstanding queries"
    )
    assert "lower target_qps" in found.advice
    assert "--budget 20s" in found.advice


def test_some_valid_loads_make_it_a_warning_and_all_of_them_nothing():
    case = a_load_case(100.0)
    (found,) = look(a_load(case), a_load(case, 500), case=case)
    assert found.severity == Severity.WARNING
    assert not look(a_load(case), a_load(case), case=case)


def test_a_load_without_a_verdict_is_not_valid():
    case = a_load_case()
    (found,) = look(a_load(case, facts={"loadgen_result": None, "loadgen_reasons": ()}), case=case)
    assert "it gave no result" in found.message
    assert found.advice == "measure longer: --budget 20s"


def test_other_tasks_are_not_its_business():
    assert not list(registry.load("checks", "loadgen_invalid").look(a_run()))

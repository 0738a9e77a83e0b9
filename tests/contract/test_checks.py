"""Every check, ours or a third party's, keeps the Protocol: a description, and findings that can be used."""

from __future__ import annotations

from pathlib import Path

from build import a_case, a_run, a_trial
from over import over

from torchstone.core.schema.estimate import Severity
from torchstone.plugins import registry
from torchstone.plugins.protocols import Check

CHECKS = registry.names("checks")
PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


@over("name", CHECKS)
def test_describes_itself_in_one_line(name: str) -> None:
    check: Check = registry.load("checks", name)
    assert check.describes
    assert "\n" not in check.describes


@over("name", CHECKS)
def test_is_on_the_page_of_checks(name: str) -> None:
    on_page = f"`{name}`" in PAGE.read_text(encoding="utf-8")
    assert on_page, f"docs/checks.md has no row of `{name}`"


@over("name", CHECKS)
def test_an_empty_run_has_no_findings(name: str) -> None:
    check: Check = registry.load("checks", name)
    assert not list(check.look(a_run([])))
    assert not list(check.look(a_run([], cases=[], end=None)))
    assert not list(check.look(a_run([a_trial(measurements=(), facts={})] * 3)))


@over("name", CHECKS)
def test_a_sound_run_has_no_findings(name: str) -> None:
    check: Check = registry.load("checks", name)
    assert not list(check.look(a_run()))


@over("name", CHECKS)
def test_findings_name_their_check_and_a_subject_of_the_run(name: str) -> None:
    facts = {"warmup_settled": False, "clock_resolution_s": 1.0}
    odd = a_trial([1e-9, 5.0], steady={"window_time_s": [0.1]}, facts=facts)
    run = a_run([odd], cases=[a_case(), a_case({"batch_size": 32})])
    for finding in registry.load("checks", name).look(run):
        assert finding.check == name
        assert finding.severity in Severity
        assert finding.subject in {"run", a_case().case_id}
        assert finding.message
        assert finding.advice

"""A check that fails costs a run nothing but its own word."""

from build import a_run, a_trial

from torchstone.core.schema.estimate import Severity
from torchstone.plugins import registry
from torchstone.plugins.checking import look


def test_a_check_of_a_third_party_that_fails_is_a_finding_and_the_others_look(monkeypatch):
    own, load = registry.names("checks"), registry.load

    def broken(family, name):
        if name == "foreign":
            raise ModuleNotFoundError("no such module")
        return load(family, name)

    monkeypatch.setattr(registry, "names", lambda family: (*own, "foreign") if family == "checks" else own)
    monkeypatch.setattr(registry, "load", broken)
    found = {finding.check: finding for finding in look(a_run([a_trial()]))}
    assert found["foreign"].severity == Severity.WARNING
    assert "no such module" in found["foreign"].message
    assert "few_trials" in found

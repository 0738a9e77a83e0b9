"""The examples of CONTRIBUTING.md are whole files that do what they say."""

import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from build import a_run, a_trial
from over import over
from stored import store
from zoo import ZOO

from torchstone.cli import main
from torchstone.core.schema.trial import Series
from torchstone.plugins import registry

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def module_of(constant: str) -> Any:
    """The example whose last line sets this name, as a module."""
    (code,) = (one for one in re.findall(r"```python\n(\"\"\".*?)```", PAGE, re.DOTALL) if constant in one)
    module = ModuleType(constant)
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(("celsius", "fires"), [(95.0, True), (60.0, False), (None, False)])
def test_the_check_fires_and_does_not(celsius, fires):
    series = () if celsius is None else (Series("device_temperature_c", "nvml", (0.0,), (celsius,)),)
    found = list(module_of("@check").hot.look(a_run([a_trial(series=series)])))
    assert [one.message for one in found] == (["the device reached 95.0 °C"] if fires else [])


@over("make", ZOO)
def test_the_renderer_draws_every_document(make):
    text = module_of("RENDERER").RENDERER.render(make()).decode()
    assert text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_the_command_of_another_package_runs_and_is_listed(outputs, monkeypatch, capsys):
    entry = SimpleNamespace(
        name="longest", value="theirs:LONGEST", dist=None, load=lambda: module_of("LONGEST").LONGEST
    )
    groups = {"torchstone.commands": [entry]}
    monkeypatch.setattr(registry, "_entry_points", lambda: SimpleNamespace(select=lambda group: groups.get(group, [])))
    registry.names.cache_clear()
    store(outputs, [a_run([a_trial(duration_s=1.0), a_trial(trial_id="slow", duration_s=2.0)])])
    try:
        assert main(["longest", "--most", "1"]) == 0
        assert capsys.readouterr().out == "2.000 s  slow\n"
        assert main(["--help-all"]) == 0
        assert "print the trials of a stored run that took longest" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main(["longest", "--help"])
        assert "\ntorchstone longest latest --most 5\n" in capsys.readouterr().out
        assert main(["longst"]) == 2
        assert "Did you mean 'longest'?" in capsys.readouterr().err
    finally:
        registry.names.cache_clear()

"""The examples of CONTRIBUTING.md are whole files that do what they say."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from build import a_run, a_trial
from over import over
from zoo import ZOO

from torchstone.core.schema.trial import Series

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

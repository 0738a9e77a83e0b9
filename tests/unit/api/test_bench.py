"""Peaks begin anew on the device that is measured, whichever torch calls the current one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchstone.api.bench import reset_peaks


@pytest.mark.parametrize("told", [{"empty_cache", "reset_peak_memory_stats"}, {"empty_cache"}])
def test_the_peak_of_that_device(monkeypatch, told):
    place: Any = SimpleNamespace(type="cuda", index=1)
    called: list[tuple[str, tuple[Any, ...]]] = []
    module = SimpleNamespace(**{name: lambda *given, name=name: called.append((name, given)) for name in told})
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    reset_peaks(place)
    assert dict(called) == {name: (place,) if name.startswith("reset") else () for name in told}

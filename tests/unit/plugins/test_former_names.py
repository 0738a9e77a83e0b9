"""A plug-in written before names moved finds the same classes by the names it knows."""

import importlib
import sys

import pytest

from torchstone import extend
from torchstone.core.schema import axis
from torchstone.plugins import former_names


@pytest.fixture
def former(monkeypatch):
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    former_names.install()
    yield
    for name in set(sys.modules) - set(before):
        if name.startswith(tuple(former_names._NOW)):
            del sys.modules[name]


@pytest.mark.usefixtures("former")
def test_a_former_name_is_the_very_same_module_and_says_where_it_is_now():
    spec = axis.__spec__
    with pytest.warns(DeprecationWarning, match=r"torchstone\.terms") as told:
        found = importlib.import_module("torchstone.terms.axis")
    assert str(told[-1].message).startswith("torchstone.terms.axis is torchstone.core.schema.axis now")
    assert found is axis
    assert axis.__spec__ is spec


@pytest.mark.usefixtures("former")
def test_what_never_was_is_not_found():
    with pytest.warns(DeprecationWarning, match="torchstone"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("torchstone.terms.nonsense")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torchstone.nonsense")


@pytest.mark.usefixtures("former")
def test_it_is_installed_once():
    former_names.install()
    assert sum(isinstance(finder, former_names.FormerNames) for finder in sys.meta_path) == 1


def test_the_public_door_gives_what_it_names():
    assert all(hasattr(extend, name) for name in extend.__all__)
    assert extend.Scalar == axis.Scalar

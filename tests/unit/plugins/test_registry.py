"""Plug-ins of third parties: found, refused with the reason, and never in the place of ours."""

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace
from typing import Any

import pytest

from torchstone import extend
from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema import axis
from torchstone.plugins import registry
from torchstone.plugins.choices import model_source_of


class FakeEntry:
    """An entry point of an installed package, with what it gives when it is loaded."""

    def __init__(self, family: str, name: str, given: Any, package: str = "theirs") -> None:
        self.group, self.name, self.value = f"torchstone.{family}", name, f"{package}.module:PLUGIN"
        self.dist = SimpleNamespace(name=package, version="1.0")
        self._given = given

    def load(self) -> Any:
        if isinstance(self._given, Exception):
            raise self._given
        return self._given


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    entries: list[FakeEntry] = []

    def select(group: str) -> Sequence[FakeEntry]:
        return [entry for entry in entries if entry.group == group]

    monkeypatch.setattr(registry, "_entry_points", lambda: SimpleNamespace(select=select))
    registry.names.cache_clear()
    yield entries.extend
    registry.names.cache_clear()


class Theirs(extend.ModelSource):
    describes = "theirs"

    def names(self):
        return [("net", "a net")]

    def card(self, name, options):
        raise NotImplementedError

    def preload(self, name):
        raise NotImplementedError

    def load(self, name, workload, configuration):
        raise NotImplementedError


class TheirData(extend.DataSource):
    describes, options = "their data", ()

    def card(self, path, options):
        raise NotImplementedError

    def samples(self, path, view):
        raise NotImplementedError


THEIRS, DATA = Theirs(), TheirData()


def test_a_plugin_of_somebody_else_is_listed_and_loaded(installed):
    installed([FakeEntry("models", "theirs", THEIRS)])
    assert "theirs" in registry.names("models")
    assert registry.load("models", "theirs") is THEIRS
    assert dict(registry.usable("models"))["theirs"] is THEIRS
    assert model_source_of("net") == ("theirs", "net"), "and its models are found by their bare names"


def test_ours_wins_over_one_of_the_same_name_and_it_is_told(installed):
    installed([FakeEntry("models", "hf", THEIRS)])
    assert registry.load("models", "hf") is not THEIRS
    assert registry.names("models").count("hf") == 1
    ((name, why),) = registry.shadowed("models")
    assert name == "hf"
    assert why == "of package theirs 1.0 is not used: torchstone's own model source has this name"
    assert registry.shadowed("data") == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (ImportError("no module named tensorsoup"), "of package theirs 1.0 cannot be imported: ImportError: no module"),
        (ZeroDivisionError("oops"), "cannot be imported: ZeroDivisionError: oops"),
        (Theirs, "is not a plug-in: theirs.module:PLUGIN must be an object of a subclass of torchstone.extend.ModelS"),
        (SimpleNamespace(describes="no subclass"), "must be an object of a subclass of torchstone.extend.ModelSource"),
        (DATA, "must be an object of a subclass of torchstone.extend.ModelSource"),
    ],
    ids=["import", "raises", "class", "no subclass", "of another family"],
)
def test_one_that_cannot_be_used_says_why_and_the_others_work(installed, given, says):
    installed([FakeEntry("models", "theirs", given)])
    assert "theirs" in registry.names("models"), "it is listed, with the reason"
    with pytest.raises(MissingError, match="model source theirs") as caught:
        registry.load("models", "theirs")
    assert says in str(caught.value)
    assert set(dict(registry.usable("models"))) == set(registry.names("models")) - {"theirs"}
    assert model_source_of("cnn") == ("builtin", "cnn"), "a bare name is looked for in the others"
    with pytest.raises(UsageError, match="unknown model 'cnnn'"):
        model_source_of("cnnn")


def test_a_name_that_two_packages_offer_belongs_to_neither(installed):
    installed([FakeEntry("data", "rows", THEIRS, "one"), FakeEntry("data", "rows", THEIRS, "other")])
    with pytest.raises(MissingError, match=r"2 packages offer it \(package one 1\.0, package other 1\.0\); uninstall"):
        registry.load("data", "rows")


def test_a_package_found_twice_on_the_path_is_one(installed):
    installed([FakeEntry("data", "rows", DATA), FakeEntry("data", "rows", DATA)])
    assert registry.load("data", "rows") is DATA


def test_real_entry_points_have_what_the_fakes_have():
    entry = EntryPoint("name", "module:PLUGIN", "torchstone.plugins.models")
    assert (entry.name, entry.value, entry.group, entry.dist) == (
        "name",
        "module:PLUGIN",
        "torchstone.plugins.models",
        None,
    )
    assert list(EntryPoints([entry]).select(group="torchstone.plugins.models")) == [entry]


def test_a_plugin_is_a_file_or_a_package_and_what_a_family_shares_is_neither(tmp_path, monkeypatch):
    family = tmp_path / "plugins" / "clusters"
    for name in ("single.py", "_shared.py", "several/__init__.py", "several/part.py", "_ground/__init__.py"):
        (family / name).parent.mkdir(parents=True, exist_ok=True)
        (family / name).write_text("raise AssertionError('listing imports nothing')\n")
    (family / "left" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(registry, "_HERE", tmp_path / "plugins")
    registry._own.cache_clear()
    try:
        assert registry._own("clusters") == {"single", "several"}
    finally:
        registry._own.cache_clear()


def test_the_public_door_gives_what_it_names():
    assert all(hasattr(extend, name) for name in extend.__all__)
    assert extend.Scalar == axis.Scalar

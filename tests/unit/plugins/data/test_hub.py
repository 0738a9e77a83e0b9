"""The `datasets` library is made up here (made_up_library/): the real one is 270 MB, and there is no hub to reach."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry
from torchstone.plugins.data import hub as hub_sets

HUB: Any = registry.load("data", "hub")
TEXT = InputSpec("text", classes=3, vocabulary=200)
LIBRARY = Path(__file__).parent / "made_up_library"


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(LIBRARY))
    monkeypatch.setenv("PYTHONPATH", str(LIBRARY))
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    yield
    sys.modules.pop("datasets", None)


def view(split: str | None, **options: str) -> View:
    return View(TEXT, {"sequence_length": 8, "image_size": 4}, split=split, options=options)


def test_text_with_named_classes() -> None:
    card = HUB.card("someone/moods", {})
    assert (card.kind, card.items, card.classes, card.labels) == ("text", 6, 3, ("sad", "calm", "glad"))
    assert card.splits == {"train": 3, "validation": 1, "test": 2}
    train = HUB.samples("someone/moods", view("train"))
    assert [int(train[n]["labels"]) for n in range(3)] == [2, 0, 1]
    assert "labels" not in HUB.samples("someone/moods", view("test"))[0]  # kept back: all of them are -1
    from datasets import config

    assert config.HF_HUB_OFFLINE  # a trial measures no download


def test_images_are_decoded_by_the_loader() -> None:
    card = HUB.card("someone/pictures", {})
    assert (card.kind, card.items, card.classes, card.labels) == ("image", 3, 2, ("dark", "bright"))
    assert card.splits == {"train": 2, "test": 1}
    spec = InputSpec("image", classes=2)
    samples = HUB.samples("someone/pictures", View(spec, {"image_size": 4}, split="train"))
    assert samples[1]["pixel_values"].shape == (3, 4, 4)
    assert [float(samples[n]["pixel_values"].mean()) for n in range(2)] == pytest.approx([-1.0, 1.0])
    assert [int(samples[n]["labels"]) for n in range(2)] == [0, 1]


def test_columns_that_are_named(tmp_path: Path) -> None:
    options = {"text": "a", "label": "b", "config": "large"}
    card = HUB.card("someone/words", options)
    assert (card.items, card.labels) == (2, ("no", "yes"))
    assert [int(HUB.samples("someone/words", view("train", **options))[n]["labels"]) for n in range(2)] == [0, 1]
    other = HUB.card("someone/words", {**options, "text": "c"})
    assert other.sha256 != HUB.card("someone/words", {**options, "text": "c", "config": "small"}).sha256


def test_a_folder_that_was_saved_to_disk(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    card = HUB.card(str(tmp_path), {})
    assert (card.items, card.splits) == (3, {})
    assert len(HUB.samples(str(tmp_path), view(None))) == 3


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        ("", {}, UsageError, "name the data set"),
        ("someone/far", {}, MissingError, r"is not in the cache, and not downloadable: Couldn't reach .* Hub \(Local"),
        ("no/such", {}, UsageError, "no/such: FileNotFoundError: Dataset 'no/such' doesn't exist"),
        ("someone/dead", {}, UsageError, "someone/dead: reading it ended with exit code 9"),
        ("someone/unsplit", {}, UsageError, "its splits are unsupervised: no train"),
        ("someone/words", {}, UsageError, r"give text=COLUMN or image=COLUMN; it has: a \(string\), b \(string\)"),
        ("someone/words", {"text": "d"}, UsageError, "has no column 'd'; it has: a"),
        ("someone/pictures", {"text": "label", "image": "image"}, UsageError, "give only one of them"),
        ("someone/moods", {"text": "idx"}, UsageError, r"\(train\): row 1: idx has no text, but '0'"),
    ],
)
def test_what_cannot_be_had(name: str, options: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        HUB.card(name, options)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


def test_a_library_that_is_not_there_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets, "__version__", "3.6.0")
    with pytest.raises(MissingError, match=r"datasets 3\.6\.0 is too old: pip install 'torchstone\[hub\]'"):
        hub_sets.open_sets("someone/moods", None, offline=False)
    monkeypatch.setattr("torchstone.plugins.data.hub.find_spec", lambda name: None)
    with pytest.raises(MissingError, match=r"needs datasets: pip install 'torchstone\[hub\]'"):
        HUB.card("someone/moods", {})

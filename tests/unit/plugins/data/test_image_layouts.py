"""Which files are which split and class, in every layout that people have; and what is said where it is none."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pictures import batch, cifar_batches, class_folders, encoded, food101, imagenet100, mri, parquet, picture

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.model import DataCard, InputSpec, Unreadable, View
from torchstone.plugins import registry
from torchstone.plugins.data import _image_source
from torchstone.plugins.protocols import DataSource

SPEC = InputSpec("image", classes=1000)


def source(name: str) -> DataSource:
    found: DataSource = registry.load("data", name)
    return found


def card_of(name: str, place: Path, **options) -> DataCard:
    return source(name).card(str(place), options)


def samples_of(name: str, place: Path, split: str | None = None, side: int = 8, **view) -> Any:
    return source(name).samples(str(place), View(SPEC, {"image_size": side}, split=split, **view))


def labels_of(samples: Any) -> list[int]:
    items = [samples[n] for n in range(len(samples))]
    return [int(item["labels"]) for item in items if not isinstance(item, Unreadable)]


# ── folders ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_class_folders(tmp_path: Path) -> None:
    for name in ("b/1.png", "b/2.JPG", "a/1.bmp", "c/1.webp", ".hidden/1.png", "__MACOSX/1.png"):
        picture(tmp_path / name)
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    card = card_of("images", tmp_path)
    assert (card.items, card.classes, card.labels, card.splits) == (4, 3, ("a", "b", "c"), {})
    samples = samples_of("images", tmp_path)
    assert labels_of(samples) == [samples.label(n) for n in range(4)] == [0, 1, 1, 2]


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    (tmp_path / "thumbnails").mkdir()
    assert (card_of("images", tmp_path).classes, card_of("images", tmp_path).labels) == (None, ())
    samples = samples_of("images", tmp_path)
    item = samples[0]
    assert samples.label(0) is None
    assert set(item) == {"pixel_values"}


@pytest.mark.parametrize(
    "words",
    [
        ("train", "validation", "test"),
        ("Train", "val", "TEST"),
        ("training", "valid", "testing"),
        ("Train", "dev", "test"),
    ],
)
def test_split_folders(tmp_path: Path, words: tuple[str, ...]) -> None:
    for number, word in enumerate(words):
        class_folders(tmp_path / word, ("cat", "dog"), each=number + 1)
    (tmp_path / "notes").mkdir()
    picture(tmp_path / "poster.png")
    card = card_of("images", tmp_path)
    assert list(card.splits.items()) == [("train", 2), ("validation", 4), ("test", 6)]
    assert (card.items, card.classes, card.labels) == (12, 2, ("cat", "dog"))
    assert labels_of(samples_of("images", tmp_path, "validation")) == [0, 0, 1, 1]
    with pytest.raises(UsageError, match="no split None; there is train, validation, test"):
        samples_of("images", tmp_path)


def test_a_held_out_split_may_lack_labels_or_classes(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", ("ape", "cat", "dog"))
    picture(tmp_path / "test" / "1.png")
    class_folders(tmp_path / "val", ("dog",))
    (tmp_path / "val" / "cat").mkdir()
    assert card_of("images", tmp_path).splits == {"train": 6, "validation": 2, "test": 1}
    assert labels_of(samples_of("images", tmp_path, "validation")) == [2, 2]
    item = samples_of("images", tmp_path, "test")[0]
    assert "labels" not in item


def test_classes_may_be_called_like_splits(tmp_path: Path) -> None:
    class_folders(tmp_path, ("bus", "train", "test"))
    assert card_of("images", tmp_path).labels == ("bus", "test", "train")


def test_only_one_split(tmp_path: Path) -> None:
    class_folders(tmp_path / "test", ("cat", "dog"))
    assert (card_of("images", tmp_path).splits, card_of("images", tmp_path).labels) == ({"test": 4}, ("cat", "dog"))


def test_the_digest_changes_with_the_files(tmp_path: Path) -> None:
    class_folders(tmp_path / "train")
    class_folders(tmp_path / "test")
    seen = {card_of("images", tmp_path).sha256}
    picture(tmp_path / "test" / "cat" / "2.png")
    seen.add(card_of("images", tmp_path).sha256)
    (tmp_path / "test" / "cat" / "2.png").write_bytes(encoded(size=(40, 40)))
    seen.add(card_of("images", tmp_path).sha256)
    assert len(seen) == 3


def test_folders_that_hold_no_images_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("a")
    (tmp_path / "cars.zip").write_bytes(b"PK")
    picture(tmp_path / "deep" / "photos" / "cat" / "1.png")
    picture(tmp_path / "mixed" / "1.png")
    picture(tmp_path / "mixed" / "cat" / "1.png")
    class_folders(tmp_path / "twice" / "val")
    class_folders(tmp_path / "twice" / "dev")
    class_folders(tmp_path / "half" / "train")
    (tmp_path / "half" / "test").mkdir()
    for name, says in {
        "": None, "no": "no such file or folder", "empty": "an empty folder", "other": "has no images",
        "other/a.txt": "a file, not a folder", "cars.zip": "an archive; unpack it",
        "deep": f"photos in it has class folders: name {tmp_path}/deep/photos", "mixed": "1 images beside class",
        "twice": "has both dev and val; remove one of them", "half": "half/test: an empty folder",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=says or "name the folder: images:PATH"):
            source("images").card(str(tmp_path / name) if says else "", {})


@pytest.mark.parametrize("below", ["", "train"])
def test_a_class_of_which_nothing_can_be_learnt_is_named(tmp_path: Path, below: str) -> None:
    class_folders(tmp_path / below)
    (tmp_path / below / "ape").mkdir()
    with pytest.raises(UsageError, match=r"class folder 'ape' .*has no image .*that class cannot be learned"):
        card_of("images", tmp_path)


def test_a_class_that_is_tested_and_not_trained_on_is_named(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", ("cat", "dog"))
    class_folders(tmp_path / "test", ("cat", "emu"))
    with pytest.raises(UsageError, match="test has images of class 'emu', but train has none"):
        card_of("images", tmp_path)


def test_labels_are_those_that_the_model_knows(tmp_path: Path) -> None:
    class_folders(tmp_path, ("cat", "dog"))
    known = ("emu", "dog", "cat")
    assert labels_of(samples_of("images", tmp_path, labels=known)) == [2, 2, 1, 1]
    with pytest.raises(UsageError, match=r"cat/0.png: class 'cat' is not a class of the model's training: dog, emu"):
        samples_of("images", tmp_path, labels=("dog", "emu"))
    with pytest.raises(UsageError, match="label 1, but the model has 1 classes"):
        source("images").samples(str(tmp_path), View(InputSpec("image", classes=1), {"image_size": 8}))


def test_wrong_options_are_named(tmp_path: Path) -> None:
    class_folders(tmp_path)
    with pytest.raises(UsageError, match=r"on_error: unknown word 'ignore'. Known: skip, stop"):
        card_of("images", tmp_path, on_error="ignore")
    with pytest.raises(UsageError, match=r"label=y names a column, and .* has no parquet files"):
        card_of("images", tmp_path, label="y")


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchstone.plugins.data._image_source.find_spec", lambda _: None)
    with pytest.raises(MissingError, match="pip install pillow"):
        card_of("images", tmp_path)


# ── parquet ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["{}", "data/{}"])
def test_shards_of_the_hub(tmp_path: Path, place: str) -> None:
    where = tmp_path / place.format("x")
    parquet(where.with_name("train-00000-of-00002.parquet"), [1, 0, 1], names=("cat", "dog"))
    parquet(where.with_name("train-00001-of-00002.parquet"), [0, 0], names=("cat", "dog"))
    parquet(where.with_name("validation-00000-of-00001.parquet"), [1], names=("cat", "dog"))
    parquet(where.with_name("test-00000-of-00001-0123456789abcdef.parquet"), [-1, -1], names=("cat", "dog"))
    card = card_of("images", tmp_path)
    assert (card.splits, card.labels, card.classes) == ({"train": 5, "validation": 1, "test": 2}, ("cat", "dog"), 2)
    train = samples_of("images", tmp_path, "train", options={"on_error": "skip"})
    assert labels_of(train) == [1, 0, 1, 0, 0]
    reds = [round(float((train[n]["pixel_values"][0, 0, 0] + 1) * 127.5)) for n in range(5)]
    assert reds == [0, 50, 100, 0, 50]
    assert labels_of(samples_of("images", tmp_path, "train", labels=("dog", "cat"))) == [0, 1, 0, 1, 1]
    assert set(samples_of("images", tmp_path, "test")[0]) == {"pixel_values"}


def test_folders_of_splits_and_single_files(tmp_path: Path) -> None:
    parquet(tmp_path / "default" / "train" / "0000.parquet", [2, 0, 1])
    parquet(tmp_path / "default" / "test" / "0000.parquet", [2])
    assert card_of("images", tmp_path / "default").splits == {"train": 3, "test": 1}
    one = card_of("images", tmp_path / "default" / "train" / "0000.parquet")
    assert (one.splits, one.items, one.classes, one.labels) == ({}, 3, 3, ())


def test_columns_by_name_and_texts_as_labels(tmp_path: Path) -> None:
    blobs = [encoded((n, 0, 0)) for n in range(3)]
    parquet(tmp_path / "train.parquet", None, images=[0] * 3, scan=blobs, kind=["emu", "cat", "emu"], label=[0.5] * 3)
    parquet(tmp_path / "test.parquet", None, images=[0] * 3, scan=blobs, kind=["cat", "cat", "cat"], label=[0.5] * 3)
    card = card_of("images", tmp_path, label="kind")
    assert (card.labels, card.splits) == (("cat", "emu"), {"train": 3, "test": 3})
    assert labels_of(samples_of("images", tmp_path, "train", options={"label": "kind", "column": "scan"})) == [1, 0, 1]
    for options, says in (
        ({}, "the column label contains double, not classes"),
        ({"label": "sort"}, "has no column sort; it has: image \\(int64\\), scan \\(binary\\)"),
        ({"label": "kind", "column": "kind"}, "column=kind is no column of images"),
        ({"label": "kind", "column": "picture"}, "column=picture is no column of images"),
    ):
        with pytest.raises(UsageError, match=says):
            card_of("images", tmp_path, **options)


def test_what_is_wrong_in_parquet_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"

    def says(message: str) -> None:
        with pytest.raises(UsageError, match=message):
            card_of("images", file)

    file.write_bytes(b"PAR1 hello")
    says(f"{file}: cannot be read as parquet")
    parquet(file, [0, 5], names=("cat", "dog"))
    says(f"{file}: row 2: the label 5 is out of range: there are 2 classes, 0 to 1")
    parquet(file, [0, -2])
    says("row 2: the label -2 is out of range: classes count from 0")
    parquet(file, [0, None])
    says("row 2: the label 'None' is not a class")
    parquet(file, None, images=["a", "b"])
    says("has no column of images .*it has: image \\(string\\)")
    parquet(file, [], images=pa.array([], pa.binary()))
    says("has no rows")
    parquet(tmp_path / "s" / "train.parquet", ["cat", "dog"])
    parquet(tmp_path / "s" / "test.parquet", ["cat", "emu"])
    with pytest.raises(UsageError, match=r"test.parquet: row 2: class 'emu' is none of those in train: cat, dog"):
        card_of("images", tmp_path / "s")
    parquet(tmp_path / "n" / "train.parquet", [0, 1], names=("cat", "dog", "emu"))
    parquet(tmp_path / "n" / "test.parquet", [2, 1], names=("cat", "dog", "emu"))
    with pytest.raises(UsageError, match="test has images of class 'emu', and train has none to learn it from"):
        card_of("images", tmp_path / "n")


def test_rows_without_an_image_are_named(tmp_path: Path) -> None:
    good = {"bytes": encoded(), "path": None}
    parquet(tmp_path / "a.parquet", [0, 1, 1], images=[good, {"bytes": None, "path": "/etc/passwd"}, good])
    with pytest.raises(UsageError, match=r"a.parquet: row 2: cannot be read as an image: its row has no bytes"):
        labels_of(samples_of("images", tmp_path / "a.parquet"))
    skipping = samples_of("images", tmp_path / "a.parquet", options={"on_error": "skip"})
    assert labels_of(skipping) == [0, 1]
    assert isinstance(skipping[1], Unreadable)


def test_what_does_not_fit_into_memory_is_read_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(tmp_path / "a" / "train.parquet", [0] * 9)
    parquet(tmp_path / "b" / "train.parquet", [0] * 9)
    all_held = samples_of("images", tmp_path / "a", "train")
    assert samples_of("images", tmp_path / "a", "train", augment=True)._raw is all_held._raw
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 1}))
    monkeypatch.setattr(_image_source, "_MOST_GROUPS", 2)
    few_held = samples_of("images", tmp_path / "b", "train")
    for number in (8, 0, 3, 8, 1, 5, 2, 7, 4, 6, 0):
        one, other = all_held[number], few_held[number]
        assert torch.equal(one["pixel_values"], other["pixel_values"])
        assert len(few_held._raw._held) <= 2
    assert torch.equal(pickle.loads(pickle.dumps(few_held))[3]["pixel_values"], all_held[3]["pixel_values"])


# ── CIFAR-10 ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("inner", [False, True])
def test_batches_of_cifar10(tmp_path: Path, inner: bool) -> None:
    cifar_batches(tmp_path / "cifar-10-batches-bin" if inner else tmp_path, each=4)
    card = card_of("cifar10", tmp_path)
    assert (card.splits, card.classes, card.labels[3], card.kind) == ({"train": 20, "test": 4}, 10, "cat", "image")
    train = samples_of("cifar10", tmp_path, "train", side=32)
    assert labels_of(train) == [0, 1, 2, 3] * 5
    item = train[7]
    assert torch.allclose(item["pixel_values"], torch.full((3, 32, 32), 3 / 127.5 - 1))


def test_pixels_of_cifar10_lie_as_they_should(tmp_path: Path) -> None:
    cifar_batches(tmp_path)
    data = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    batch(tmp_path / "test_batch.bin", [3, 1], data)
    wanted = torch.from_numpy(data[1]).float() / 127.5 - 1
    plain = samples_of("cifar10", tmp_path, "test", side=32)[1]
    assert torch.allclose(plain["pixel_values"], wanted, atol=1e-6)
    one_channel = View(InputSpec("image", channels=1), {"image_size": 32}, split="test")
    grey: Any = source("cifar10").samples(str(tmp_path), one_channel)[1]
    luma = (wanted * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(0, keepdim=True)
    assert torch.allclose(grey["pixel_values"], luma, atol=1e-4)
    larger = samples_of("cifar10", tmp_path, "test", side=224, augment=True)[1]
    assert larger["pixel_values"].shape == (3, 224, 224)


def test_batches_that_are_wrong_are_named(tmp_path: Path) -> None:
    folder = cifar_batches(tmp_path)
    one = folder / "data_batch_2.bin"
    batch(one, [0, 10])
    with pytest.raises(UsageError, match=r"data_batch_2.bin: image 1: label 10 is out of range: there are 10 classes"):
        card_of("cifar10", folder)
    one.write_bytes(bytes(3074))
    with pytest.raises(UsageError, match=r"data_batch_2.bin: 3074 bytes are no whole number of images of 3073"):
        card_of("cifar10", folder)
    one.unlink()
    with pytest.raises(UsageError, match=r"data_batch_2.bin missing; unpack cifar-10-binary.tar.gz again"):
        card_of("cifar10", folder)
    batch(one, [0, 1])
    (folder / "batches.meta.txt").unlink()
    assert card_of("cifar10", folder).labels[9] == "truck"


def test_pickles_of_cifar10_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(UsageError, match=r"the Python version, of pickles; unpack cifar-10-binary.tar.gz instead"):
        card_of("cifar10", tmp_path)


def test_an_item_of_a_batch_has_a_name(tmp_path: Path) -> None:
    cifar_batches(tmp_path, each=4)
    samples = samples_of("cifar10", tmp_path, "train")
    assert samples._pile.name(6) == f"{tmp_path}/data_batch_2.bin: image 2"


# ── the others by name ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("inner", ["", "food-101"])
def test_food101_by_its_lists(tmp_path: Path, inner: str) -> None:
    food101(tmp_path / inner)
    card = card_of("food101", tmp_path)
    assert (card.splits, card.labels) == ({"train": 4, "test": 2}, ("apple_pie", "waffles"))
    assert labels_of(samples_of("food101", tmp_path, "test")) == [0, 1]
    lists = tmp_path / inner / "meta"
    for line in ("waffles/99", "../../secret", "/etc/passwd", "waffles"):
        (lists / "test.txt").write_text(f"apple_pie/12\n{line}\n")
        with pytest.raises(UsageError, match=rf"test.txt: row 2: '{line}': images/.* is not there"):
            card_of("food101", tmp_path)
    (lists / "test.txt").unlink()
    with pytest.raises(UsageError, match=r"test.txt: missing; unpack food-101.tar.gz again"):
        card_of("food101", tmp_path)


def test_imagenet100_in_its_parts(tmp_path: Path) -> None:
    imagenet100(tmp_path)
    card = card_of("imagenet100", tmp_path)
    assert (card.splits, card.labels) == ({"train": 6, "validation": 3}, ("tench", "robin", "ostrich"))
    assert labels_of(samples_of("imagenet100", tmp_path, "train")) == [0, 0, 1, 1, 2, 2]
    (tmp_path / "Labels.json").write_text('{"n01": "crane", "n02": "crane", "n03": "crane"}')
    assert card_of("imagenet100", tmp_path).labels == ("n01", "n02", "n03")
    (tmp_path / "Labels.json").write_text('["n01"]')
    with pytest.raises(UsageError, match=r"Labels.json: not a table of class names"):
        card_of("imagenet100", tmp_path)
    (tmp_path / "Labels.json").unlink()
    for part in ("train.X1", "train.X2"):
        (tmp_path / part).rename(tmp_path / part.replace("X", "Y"))
    with pytest.raises(
        UsageError, match=r"looked for train.X1 to train.X4 .*; found train.Y1/, train.Y2/, val.X/; name"
    ):
        card_of("imagenet100", tmp_path)


def test_imagenet100_in_plain_folders(tmp_path: Path) -> None:
    class_folders(tmp_path / "train")
    class_folders(tmp_path / "val", each=1)
    assert card_of("imagenet100", tmp_path).splits == {"train": 4, "validation": 2}


def test_mri(tmp_path: Path) -> None:
    mri(tmp_path)
    card = card_of("mri", tmp_path)
    assert (card.splits, card.labels) == ({"train": 4, "test": 4}, ("glioma", "notumor"))
    with pytest.raises(UsageError, match=r"looked for Training/ and Testing/ .*; found 0.png, 1.png; name the folder"):
        card_of("mri", tmp_path / "Training" / "glioma")


@pytest.mark.parametrize("name", ["cifar10", "food101", "imagenet100", "mri"])
def test_parquet_of_each_and_a_path_that_is_none(tmp_path: Path, name: str) -> None:
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", [0, 1], names=("a", "b"))
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", [1], names=("a", "b"))
    assert card_of(name, tmp_path).splits == {"train": 2, "test": 1}
    assert card_of(name, tmp_path / "data" / "test-00000-of-00001.parquet").items == 1
    with pytest.raises(UsageError, match=rf"data {name}: name the folder: {name}:PATH \(with a recipe: --data PATH\)"):
        source(name).card("", {})
    (tmp_path / "else").mkdir()
    with pytest.raises(UsageError, match=rf"else: looked for .*; found an empty folder; .*{name}:PATH"):
        card_of(name, tmp_path / "else")

import os
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from torchstone import registry
from torchstone.errors import UsageError
from torchstone.extend import DataSource
from torchstone.terms.model import InputSpec

IMAGES: DataSource = registry.load("data", "images")
SPEC = InputSpec("image", classes=10)
REAL = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[4] / "shared" / "data") / "cifar10"


def picture(file: Path, mode: str = "RGB", color: object = (255, 0, 0)) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (7, 5), color).save(file)  # type: ignore[arg-type]


def test_class_folders(tmp_path: Path) -> None:
    for name in ("b/1.png", "b/2.JPG", "a/1.bmp", "c/1.webp"):
        picture(tmp_path / name)
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    card = IMAGES.card(str(tmp_path), {})
    assert (card.items, card.classes) == (4, 3)
    samples = IMAGES.samples(str(tmp_path), SPEC, None, {"image_size": 8}, 0)
    assert [int(samples[n]["labels"]) for n in range(4)] == [0, 1, 1, 2]


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    assert IMAGES.card(str(tmp_path), {}).classes is None
    assert set(IMAGES.samples(str(tmp_path), SPEC, None, {"image_size": 8}, 0)[0]) == {"pixel_values"}


@pytest.mark.parametrize(
    ("mode", "color"), [("L", 255), ("RGBA", (255, 255, 255, 0)), ("P", 0), ("RGB", (255, 255, 255))]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_any_kind_of_image_becomes_the_channels_asked_for(
    tmp_path: Path, mode: str, color: object, channels: int
) -> None:
    picture(tmp_path / "1.png", mode, color)
    spec = InputSpec("image", channels=channels)
    pixels = IMAGES.samples(str(tmp_path), spec, None, {"image_size": 16}, 0)[0]["pixel_values"]
    assert pixels.shape == (channels, 16, 16)
    assert pixels.dtype == torch.float32
    assert torch.allclose(pixels, torch.full_like(pixels, -1.0 if mode == "P" else 1.0))


def test_the_digest_changes_with_the_files(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    before = IMAGES.card(str(tmp_path), {}).sha256
    picture(tmp_path / "2.png")
    assert IMAGES.card(str(tmp_path), {}).sha256 != before


def test_folders_that_hold_no_images_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("a")
    picture(tmp_path / "split" / "train" / "cat" / "1.png")
    picture(tmp_path / "mixed" / "1.png")
    picture(tmp_path / "mixed" / "cat" / "1.png")
    for name, says in {
        "": None, "no": "there is no such folder", "empty": "an empty folder", "other": "has no images",
        "other/a.txt": "a file",
        "split": f"images:{tmp_path}/split/train", "mixed": "1 images beside class folders",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=says or "name the folder"):
            IMAGES.card(str(tmp_path / name) if says else "", {})


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("damage", ["torn", "text"])
def test_a_damaged_image_is_named_when_it_is_read(tmp_path: Path, damage: str, workers: int) -> None:
    file = tmp_path / "1.png"
    picture(file)
    file.write_bytes(file.read_bytes()[:40] if damage == "torn" else b"hello")
    assert IMAGES.card(str(tmp_path), {}).items == 1
    samples = IMAGES.samples(str(tmp_path), SPEC, None, {"image_size": 8}, 0)
    with pytest.raises(UsageError, match=f"{file}: cannot be read as an image"):
        next(iter(DataLoader(samples, num_workers=workers)))  # type: ignore[arg-type]


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")
def test_cifar10() -> None:
    card = IMAGES.card(str(REAL / "train"), {})
    assert (card.items, card.classes) == (1000, 10)
    item = IMAGES.samples(str(REAL / "train"), SPEC, None, {"image_size": 32}, 0)[999]
    assert item["pixel_values"].shape == (3, 32, 32)
    assert int(item["labels"]) == 9
    assert item["pixel_values"].std() > 0.1

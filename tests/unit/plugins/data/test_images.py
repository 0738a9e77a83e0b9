"""What an image becomes: any mode, any size, any side up, and what cannot be read."""

import io
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from pictures import class_folders, encoded, picture
from PIL import Image
from torch.utils.data import DataLoader

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import InputSpec, Unreadable, View
from torchstone.plugins import registry
from torchstone.plugins.data._images import decoded, middle, random_part
from torchstone.plugins.protocols import DataSource
from torchstone.plugins.tasks._batches import collate

IMAGES: DataSource = registry.load("data", "images")
SPEC = InputSpec("image", classes=10)
REAL = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[5] / "shared" / "data") / "cifar10"


def samples_of(folder: Path, side: int = 8, *, channels: int = 3, **view) -> Any:
    return IMAGES.samples(str(folder), View(InputSpec("image", channels=channels), {"image_size": side}, **view))


def pixels_of(folder: Path, side: int = 8, *, channels: int = 3, **view) -> torch.Tensor:
    pixels: torch.Tensor = samples_of(folder, side, channels=channels, **view)[0]["pixel_values"]
    return pixels


@pytest.mark.parametrize(
    ("mode", "color", "value"),
    [
        ("RGB", (255, 255, 255), 1.0), ("L", 255, 1.0), ("L", 0, -1.0), ("1", 1, 1.0), ("P", 0, -1.0),
        ("I;16", 65535, 1.0), ("I;16", 0, -1.0), ("I;16", 32896, 128 / 127.5 - 1),
        ("RGBA", (0, 0, 0, 0), 1.0), ("RGBA", (0, 0, 0, 255), -1.0), ("LA", (0, 0), 1.0), ("LA", (0, 255), -1.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("channels", [1, 3])
def test_any_mode_becomes_the_channels_asked_for(tmp_path, mode, color, value, channels) -> None:
    picture(tmp_path / "1.png", mode, color)
    pixels = pixels_of(tmp_path, 16, channels=channels)
    assert pixels.shape == (channels, 16, 16)
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    assert torch.allclose(pixels, torch.full_like(pixels, value), atol=1e-6)


@pytest.mark.parametrize("transparency", [3, bytes([255, 255, 255, 0])])
def test_a_transparent_color_of_a_palette_is_white(tmp_path, transparency) -> None:
    image = Image.new("P", (4, 4), 3)
    image.putpalette([0] * 768)
    image.save(tmp_path / "1.png", transparency=transparency)
    assert torch.allclose(pixels_of(tmp_path), torch.ones(3, 8, 8), atol=1e-6)


def test_cmyk_and_quiet_modes(tmp_path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "1.jpg", quality=95)
    pixels = pixels_of(tmp_path)
    assert torch.allclose(pixels.mean((1, 2)), torch.tensor([1.0, -1.0, -1.0]), atol=0.1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_says_which_side_is_up(tmp_path, orientation) -> None:
    upright = Image.new("L", (16, 16), 0)
    upright.paste(255, (0, 0, 8, 8))
    upright.paste(128, (8, 0, 16, 8))
    turns = (None, 0, 3, 1, 5, 2, 6, 4)  # what a camera that was held so made of it: the inverse of PIL's cure
    turn = turns[orientation - 1]
    image = upright if turn is None else upright.transpose(Image.Transpose(turn))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "1.jpg", exif=exif, quality=100)
    pixels = pixels_of(tmp_path, 16, channels=1)[0]
    assert [round(float(pixels[y, x])) for y, x in ((4, 4), (4, 12), (12, 4), (12, 12))] == [1, 0, -1, -1]


def test_a_torn_note_of_the_camera_does_no_harm(tmp_path) -> None:
    Image.new("L", (8, 8), 255).save(tmp_path / "1.jpg", exif=b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PIL warns of the note
        assert torch.allclose(pixels_of(tmp_path), torch.ones(3, 8, 8), atol=0.02)


def test_the_middle_is_looked_at_and_resized_as_pil_does(tmp_path) -> None:
    generator = torch.Generator().manual_seed(0)
    rough = torch.randint(0, 256, (20, 30, 3), dtype=torch.uint8, generator=generator)
    image = Image.frombytes("RGB", (30, 20), bytes(rough.flatten().tolist()))
    image.save(tmp_path / "1.png")
    theirs = image.crop((5, 0, 25, 20)).resize((8, 8), Image.Resampling.BILINEAR)
    wanted = torch.frombuffer(bytearray(theirs.tobytes()), dtype=torch.uint8).view(8, 8, 3).permute(2, 0, 1) / 127.5 - 1
    assert torch.allclose(pixels_of(tmp_path), wanted, atol=1.01 / 127.5)


def test_sizes_may_differ(tmp_path) -> None:
    for number, size in enumerate([(1, 1), (300, 2), (2, 300), (64, 64)]):
        picture(tmp_path / f"{number}.png", size=size)
    samples = samples_of(tmp_path, 32)
    assert {tuple(samples[n]["pixel_values"].shape) for n in range(4)} == {(3, 32, 32)}


def test_a_model_of_other_channels_is_told(tmp_path) -> None:
    picture(tmp_path / "1.png")
    with pytest.raises(UsageError, match="images of 4 channels; files of images give 1 or 3"):
        samples_of(tmp_path, channels=4)


# ── augmentation ────────────────────────────────────────────────────────────────────────────────────────────


def test_random_parts_have_the_areas_and_shapes_they_should() -> None:
    torch.manual_seed(0)
    parts = [random_part(300, 400) for _ in range(2000)]
    areas = [height * width / 120_000 for _, _, height, width in parts]
    assert 0.07 < min(areas) < 0.1
    assert 0.9 < max(areas) <= 1.0
    assert all(0.74 < width / height < 1.35 for _, _, height, width in parts)
    assert all(0 <= top <= 300 - height and 0 <= left <= 400 - width for top, left, height, width in parts)
    assert {random_part(1, 1000) for _ in range(20)} == {middle(1, 1000)}


def test_photos_are_zoomed_into_and_small_images_shifted(tmp_path) -> None:
    image = Image.new("L", (96, 96), 0)
    image.paste(255, (48, 0, 96, 96))
    image.save(tmp_path / "1.png")
    torch.manual_seed(0)
    plain, zoomed = samples_of(tmp_path, 72), samples_of(tmp_path, 72, augment=True)
    shares = {round(float((zoomed[0]["pixel_values"] > 0).float().mean()), 3) for _ in range(20)}
    assert len(shares) > 10
    assert torch.equal(plain[0]["pixel_values"], plain[0]["pixel_values"])
    small, seen = samples_of(tmp_path, 32, augment=True), set()
    for _ in range(60):
        white = (small[0]["pixel_values"][0].amax(0) > 0.0).nonzero().flatten()  # the right half, or mirrored the left
        seen.add((int(white[0]) < 10, len(white)))
    assert {mirrored for mirrored, _ in seen} == {True, False}
    assert {columns for _, columns in seen} <= set(range(11, 18))
    assert len({columns for _, columns in seen}) > 3


def test_chance_comes_from_torchs_generator(tmp_path) -> None:
    picture(tmp_path / "1.png", size=(40, 30))
    Image.effect_noise((90, 70), 60).save(tmp_path / "1.png")
    samples = samples_of(tmp_path, 72, augment=True)
    assert (samples.augments, samples_of(tmp_path).augments) == (True, False)
    torch.manual_seed(3)
    one = samples[0]["pixel_values"]
    other = samples[0]["pixel_values"]
    torch.manual_seed(3)
    assert torch.equal(one, samples[0]["pixel_values"])
    assert not torch.equal(one, other)


# ── what cannot be read ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("damage", "workers"), [("torn", 0), ("torn", 1), ("text", 0), ("empty", 0), ("another format", 0), ("gone", 0)]
)
def test_a_damaged_image_is_named_or_skipped(tmp_path: Path, damage: str, workers: int) -> None:
    folder = class_folders(tmp_path / "photos", ("cat",), each=3)
    file = folder / "cat" / "1.png"
    content = {
        "torn": file.read_bytes()[:40], "text": b"hello", "another format": encoded(form="GIF"),
    }.get(damage, b"")  # fmt: skip
    file.write_bytes(content)
    assert IMAGES.card(str(folder), {}).items == 3
    stops = samples_of(folder)
    skips = samples_of(folder, options={"on_error": "skip"})
    if damage == "gone":
        file.unlink()
    says = f"{file}: cannot be read as an image: .*--data-option on_error=skip leaves such items out"
    with pytest.raises(UsageError, match=says):
        list(DataLoader(stops, batch_size=3, num_workers=workers, collate_fn=collate))
    (batch,) = DataLoader(skips, batch_size=3, num_workers=workers, collate_fn=collate)
    assert (batch.items, batch.tensors["pixel_values"].shape[0]) == (2, 2)
    assert [bad.where for bad in batch.unreadable] == [str(file)]
    assert batch.unreadable[0].why
    assert str(file) not in batch.unreadable[0].why or damage == "gone"


def test_whatever_bytes_are_changed_the_image_is_read_or_named(tmp_path) -> None:
    generator = torch.Generator().manual_seed(0)
    folder = tmp_path / "photos"
    stream = io.BytesIO()
    Image.effect_noise((24, 24), 60).convert("RGB").save(stream, "JPEG", exif=Image.Exif())
    for form, sound in (("png", encoded(size=(24, 24))), ("jpg", stream.getvalue()), ("webp", encoded(form="WEBP"))):
        for number in range(60):
            torn = bytearray(sound)
            for place in torch.randint(0, len(torn), (3,), generator=generator).tolist():
                torn[place] = int(torch.randint(0, 256, (), generator=generator))
            folder.mkdir(exist_ok=True)
            (folder / f"{number}.{form}").write_bytes(torn)
    samples = samples_of(folder, options={"on_error": "skip"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        items = [samples[n] for n in range(len(samples))]
    bad = [item for item in items if isinstance(item, Unreadable)]
    assert 10 < len(bad) < 170
    assert all(item.why and "\n" not in item.why for item in bad)


def test_a_lack_of_memory_is_no_damage(tmp_path, monkeypatch) -> None:
    picture(tmp_path / "1.png")
    samples = samples_of(tmp_path, options={"on_error": "skip"})

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("torchstone.plugins.data._images.decoded", full)
    with pytest.raises(MemoryError):
        samples[0]


def test_the_data_ends(tmp_path) -> None:
    picture(tmp_path / "1.png")
    with pytest.raises(IndexError):
        samples_of(tmp_path)[1]


def test_decoding_reads_streams_too() -> None:
    assert decoded(io.BytesIO(encoded((1, 2, 3), (4, 2))), "RGB").tolist() == [[[v] * 4] * 2 for v in (1, 2, 3)]


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")
def test_real_photos() -> None:
    card = IMAGES.card(str(REAL), {})
    assert (card.items, card.classes, dict(card.splits)) == (1500, 10, {"train": 1000, "test": 500})
    assert card.labels[0] == "airplane"
    item: Any = IMAGES.samples(str(REAL), View(SPEC, {"image_size": 32}, split="train"))[999]
    assert item["pixel_values"].shape == (3, 32, 32)
    assert int(item["labels"]) == 9
    assert item["pixel_values"].std() > 0.1

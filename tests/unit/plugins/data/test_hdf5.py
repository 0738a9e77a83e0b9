import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry

HDF5: Any = registry.load("data", "hdf5")
SIGNAL = InputSpec("features", width=2)
MAKER = Path(__file__).parents[4] / "examples" / "make_h5.py"


def written(folder: Path, **datasets: np.ndarray) -> str:
    with h5py.File(folder / "s.h5", "w") as handle:
        for name, values in datasets.items():
            handle[name.replace("__", "/")] = values
    return str(folder / "s.h5")


def view(length: int = 6, split: str | None = None, **options: str) -> View:
    return View(SIGNAL, {"sequence_length": length}, split=split, options=options)


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="f4").reshape(shape)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("h5") / "signals.h5"
    subprocess.run([sys.executable, MAKER, file, "--items", "20"], check=True, timeout=60)
    return str(file)


def test_the_generator_makes_what_the_seed_has(made: str) -> None:
    card = HDF5.card(made, {"target_key": "y"})
    assert (card.kind, card.items, card.classes) == ("features", 20, None)
    assert card.splits == {"train": 16, "validation": 2, "test": 2}
    samples = HDF5.samples(made, view(5160, "train", target_key="y"))
    item = samples[3]
    assert {name: tuple(tensor.shape) for name, tensor in item.items()} == {
        "features": (5160, 2), "targets": (5160, 2),
    }  # fmt: skip
    assert (item["features"] - item["targets"]).std() == pytest.approx(0.3, rel=0.05)
    assert 0.3 < item["targets"].square().mean() < 3.0
    assert not torch.equal(samples[2]["targets"], item["targets"])


def test_equal_arguments_make_equal_signals(made: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, MAKER, tmp_path / "again.h5", "--items", "20"], check=True, timeout=60)
    one, two = (HDF5.samples(path, view(5160, "test")) for path in (made, str(tmp_path / "again.h5")))
    assert torch.equal(one[1]["features"], two[1]["features"])


def test_one_piece_without_a_target(tmp_path: Path) -> None:
    path = written(tmp_path, waves=numbers(3, 6, 2))
    card = HDF5.card(path, {})
    assert (card.items, card.splits) == (3, {})
    samples = HDF5.samples(path, view(4))
    assert samples[1]["features"].tolist() == [[12, 13], [14, 15], [16, 17], [18, 19]]
    assert set(samples[1]) == {"features"}
    with pytest.raises(IndexError):
        samples[3]


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2", "u1", "f2"])
def test_numbers_of_any_kind_become_float32(tmp_path: Path, dtype: str) -> None:
    path = written(tmp_path, x=numbers(2, 3, 2).astype(dtype))
    item = HDF5.samples(path, view(3))[1]
    assert item["features"].dtype is torch.float32
    assert item["features"].tolist() == [[6, 7], [8, 9], [10, 11]]


def test_the_usual_key_goes_first_and_any_may_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, extra=numbers(1, 6, 2), inputs=numbers(2, 6, 2), deep__er=numbers(3, 6, 2))
    assert HDF5.card(path, {}).items == 2
    assert HDF5.card(path, {"key": "/deep/er"}).items == 3


@pytest.mark.parametrize(
    ("datasets", "options", "says"),
    [
        (
            {"a": (2, 6, 2), "b": (3, 6, 2)},
            {},
            r"say which data set: key=NAME; it has: a \(2 × 6 × 2\), b \(3 × 6 × 2\)",
        ),
        ({"a": (2, 6, 2)}, {"key": "x"}, r"has no data set x; it has: a \(2 × 6 × 2\)"),
        ({"a": (2, 6, 2)}, {"target_key": "y"}, r"has no data set y; it has: a"),
        ({"train__a": (2, 6, 2)}, {"key": "x"}, r"has no data set train/x; it has: train/a"),
        ({"x": (2, 6, 2), "y": (2, 5, 2)}, {"target_key": "y"}, "y is 2 × 5 × 2, but x is 2 × 6 × 2"),
        ({"x": (2, 6)}, {}, "x is 2 × 6, not items × length × width"),
        ({"x": ()}, {}, "x is one value, not items"),
        ({"x": (0, 6, 2)}, {}, "x is 0 × 6 × 2, not items"),
    ],
)
def test_wrong_keys_and_shapes_are_named(tmp_path: Path, datasets, options, says: str) -> None:
    path = written(tmp_path, **{name: np.zeros(shape, "f4") for name, shape in datasets.items()})
    with pytest.raises(UsageError, match=f"{path}: {says}") as caught:
        HDF5.card(path, options)
    assert "\n" not in str(caught.value)


def test_words_are_no_sequences(tmp_path: Path) -> None:
    path = written(tmp_path, x=np.full((1, 2, 2), b"abc"))
    with pytest.raises(UsageError, match=r"x contains \|S3, not numbers"):
        HDF5.card(path, {})


def test_what_does_not_fit_the_model(tmp_path: Path) -> None:
    path = written(tmp_path, x=numbers(2, 6, 3))
    with pytest.raises(UsageError, match="3 values a position, but the model takes 2"):
        HDF5.samples(path, view())
    path = written(tmp_path, x=numbers(2, 6, 2))
    with pytest.raises(UsageError, match=r"shorter than sequence_length=7; use --axis sequence_length=6 or less"):
        HDF5.samples(path, view(7))


def test_two_groups_of_one_split(tmp_path: Path) -> None:
    path = written(tmp_path, val__x=numbers(1, 6, 2), dev__x=numbers(1, 6, 2))
    with pytest.raises(UsageError, match="has both dev and val"):
        HDF5.card(path, {})


def test_what_is_no_file_of_hdf5(tmp_path: Path) -> None:
    path = Path(written(tmp_path, x=np.random.default_rng(0).random((50, 60, 2))))
    (tmp_path / "torn.h5").write_bytes(path.read_bytes()[:3000])
    (tmp_path / "text.h5").write_text("not HDF5")
    for name, says in (("torn.h5", "cannot be read as HDF5"), ("text.h5", "cannot be read as HDF5"), ("no", "no such")):
        with pytest.raises(UsageError, match=says) as caught:
            HDF5.card(str(tmp_path / name), {})
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="name the file"):
        HDF5.card("", {})


def test_a_chunk_that_is_damaged_names_its_item(tmp_path: Path) -> None:
    file = tmp_path / "s.h5"
    with h5py.File(file, "w") as handle:
        data = handle.create_dataset("x", (4, 500, 2), "f4", chunks=(1, 500, 2), compression="gzip")
        data[...] = np.random.default_rng(0).random((4, 500, 2))
        place = data.id.get_chunk_info(2)
    content = bytearray(file.read_bytes())
    content[place.byte_offset : place.byte_offset + place.size] = bytes(place.size)
    file.write_bytes(content)
    samples = HDF5.samples(str(file), view(500))
    assert samples[1]["features"].shape == (500, 2)
    with pytest.raises(UsageError, match=f"{file}: item 2 cannot be read"):
        samples[2]


def test_other_files_are_out_of_reach(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = numbers(2, 6, 2)
    with h5py.File(tmp_path / "s.h5", "w") as handle:
        handle["linked"] = h5py.ExternalLink("other.h5", "x")
        handle["train"] = h5py.ExternalLink("other.h5", "/")
        layout = h5py.VirtualLayout((2, 6, 2), "f4")
        layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "x", (2, 6, 2))
        handle.create_virtual_dataset("virtual", layout)
        handle.create_dataset("raw", (1, 6, 2), "f4", external=[(str(tmp_path / "other.h5"), 0, 48)])
    for key in ("linked", "train/x", "virtual", "raw"):
        with pytest.raises(UsageError, match=f"has no data set {key}; it has: no data set"):
            HDF5.card(str(tmp_path / "s.h5"), {"key": key})


def test_every_process_opens_the_file_itself(tmp_path: Path) -> None:
    samples = HDF5.samples(written(tmp_path, x=numbers(8, 6, 2)), view())
    first = samples[0]["features"]  # the parent has a handle now, that a fork must not use
    loader: Any = DataLoader(samples, batch_size=2, num_workers=2, multiprocessing_context="fork")
    batches = [batch["features"] for batch in loader]
    assert torch.equal(torch.cat(batches), torch.from_numpy(numbers(8, 6, 2)))
    # As a process that is spawned gets it.
    assert torch.equal(pickle.loads(pickle.dumps(samples))[0]["features"], first)


@pytest.mark.parametrize("how", [{}, {"chunks": (1, 3, 2)}, {"compression": "gzip"}])
@pytest.mark.parametrize("userblock", [0, 512])
def test_it_reads_the_same_however_it_lies_in_the_file(tmp_path: Path, how: dict[str, Any], userblock: int) -> None:
    values = np.random.default_rng(0).standard_normal((4, 6, 2))
    with h5py.File(tmp_path / "s.h5", "w", userblock_size=userblock) as handle:
        handle.create_dataset("before", data=np.ones(7))
        handle.create_dataset("x", data=values, **how)
    items = HDF5.samples(str(tmp_path / "s.h5"), view(5, key="x"))
    for number in (3, 0, 2):
        assert torch.equal(items[number]["features"], torch.from_numpy(values[number, :5].astype("f4")))

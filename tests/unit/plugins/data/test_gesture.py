import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry
from torchstone.plugins.data import gesture
from torchstone.plugins.data.gesture import skeletons

GESTURE: Any = registry.load("data", "gesture")
SPEC = InputSpec("features", classes=9, width=75)
REAL = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[5] / "shared" / "data") / "gesture"
WITH_REAL = pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")


def a_body(frames: int, height: float = 1.0, away: float = 2.0) -> torch.Tensor:
    """A body that stands still, but for its right wrist, which rises evenly from 0 to 1 trunks above the hip."""
    body = torch.zeros(frames, 25, 3)
    body[:, :, 2] = away
    body[:, 20, 1] = height  # from hip to neck
    body[:, 10, 1] = torch.linspace(0.0, height, frames) if frames > 1 else height
    return body


def recorded(folder: Path, name: str, frames: int = 30, height: float = 0.5) -> Path:
    rows = a_body(frames, height).flatten(1).tolist()
    (folder / name).write_text("\n".join(",".join(f"{cell:.7g}" for cell in row) for row in rows))
    return folder / name


def view(split: str | None = None, length: int = 20, **more: object) -> View:
    return View(SPEC, {"sequence_length": length}, split=split, **more)  # type: ignore[arg-type]


def people(folder: Path, *subjects: int) -> str:
    for subject in subjects:
        for number in (0, 8):
            recorded(folder, f"{subject}_18_{number}_1_1_stand.txt", 3)
    return str(folder)


def subjects_of(path: str, held_out: str | None = None) -> dict[str | None, set[str]]:
    found = gesture.by_split(gesture.recordings(path), held_out)
    return {split: {one.subject for one in part} for split, part in found.items()}


def test_a_gesture_is_whole_whatever_its_length(tmp_path: Path) -> None:
    recorded(tmp_path, "101_18_4_1_1_stand.txt", 177, 0.5)
    recorded(tmp_path, "101_18_4_2_1_stand.txt", 30, 0.8)
    recorded(tmp_path, "101_18_4_3_1_stand.txt", 1, 0.8)
    samples = GESTURE.samples(str(tmp_path), view())
    long, short, still = (samples[n]["features"] for n in range(3))
    assert long.shape == (20, 75)
    assert torch.allclose(long, short, atol=1e-5)  # another size, another duration, the same gesture
    wrist = long.view(20, 25, 3)[:, 10, 1]
    assert torch.allclose(wrist, torch.linspace(0.0, 1.0, 20), atol=1e-5)
    assert torch.equal(still[0], still[19])
    assert int(samples[0]["labels"]) == 4
    assert GESTURE.samples(str(tmp_path), view(length=1))[0]["features"].shape == (1, 75)


def test_bodies_compare() -> None:
    body = skeletons.normalised(a_body(5, 0.6, away=3.0))
    assert body is not None
    assert not body[:, 0].any()
    assert torch.allclose(body[:, 20], torch.tensor([0.0, 1.0, 0.0]))
    assert skeletons.normalised(torch.ones(5, 25, 3)) is None


def test_time_is_warped_and_never_runs_backwards() -> None:
    ramp = torch.linspace(0.0, 1.0, 90).view(90, 1, 1).expand(90, 25, 3)
    for warp in (-1.0, -0.5, 0.5, 1.0):
        warped = skeletons.resampled(ramp, 40, warp=warp)[:, 0, 0]
        assert (warped.diff() >= -1e-6).all()
        assert warped[[0, -1]].tolist() == pytest.approx([0.0, 1.0])
        assert (warped - torch.linspace(0.0, 1.0, 40)).abs().max() == pytest.approx(abs(warp) / 6.3, rel=0.05)


def test_changes_are_small_seeded_and_for_training_alone(tmp_path: Path) -> None:
    path = str(recorded(tmp_path, "101_18_0_1_1_stand.txt"))
    plain, changed = GESTURE.samples(path, view()), GESTURE.samples(path, view(augment=True))
    assert torch.equal(plain[0]["features"], plain[0]["features"])
    torch.manual_seed(1)
    one, other = changed[0]["features"], changed[0]["features"]
    assert not torch.equal(one, other)
    torch.manual_seed(1)
    assert torch.equal(changed[0]["features"], one)
    assert 0.0 < (one - plain[0]["features"]).abs().max() < 0.3


def test_a_turn_keeps_lengths_and_heights() -> None:
    torch.manual_seed(0)
    body = torch.randn(200, 25, 3)
    turned = skeletons.augmented(body)
    assert (turned[..., 1] - body[..., 1]).abs().mean() == pytest.approx(0.01 * 0.798, rel=0.1)  # jitter alone
    assert torch.allclose(turned.norm(dim=-1), body.norm(dim=-1), atol=0.06)


@pytest.mark.parametrize(
    ("people_there", "sizes"),
    [
        ((1,), {None: 1}),
        ((1, 2), {"train": 1, "test": 1}),
        ((1, 2, 3), {"train": 2, "test": 1}),
        ((1, 2, 3, 4), {"train": 2, "validation": 1, "test": 1}),
        (tuple(range(101, 130)), {"train": 16, "validation": 6, "test": 7}),
    ],
)
def test_nobody_is_in_two_splits(tmp_path: Path, people_there: tuple[int, ...], sizes: dict[str | None, int]) -> None:
    path = people(tmp_path, *people_there)
    groups = subjects_of(path)
    assert {split: len(group) for split, group in groups.items()} == sizes
    assert sorted(s for group in groups.values() for s in group) == sorted(map(str, people_there))
    card = GESTURE.card(path, {})
    assert card.splits == {split: 2 * size for split, size in sizes.items() if split}
    assert (card.kind, card.items, card.classes) == ("features", 2 * len(people_there), 9)


def test_who_is_held_out_does_not_depend_on_the_recordings(tmp_path: Path) -> None:
    path = people(tmp_path, 1, 2, 3, 4, 5)
    before = subjects_of(path)
    recorded(tmp_path, "3_18_5_1_1_chair.txt", 2)
    assert subjects_of(path) == before


def test_held_out_subjects(tmp_path: Path) -> None:
    path = people(tmp_path, 1, 2, 3, 4, 5, 6)
    assert subjects_of(path, "2, 5")["test"] == {"2", "5"}
    assert len(subjects_of(path, "2,5")["validation"]) == 1
    assert subjects_of(path, "all") == {"test": {"1", "2", "3", "4", "5", "6"}}
    assert GESTURE.card(path, {"held_out": 4}).splits["test"] == 2
    with pytest.raises(UsageError, match=r"unknown subject '7'\. .*Known: 1, 2, 3, 4, 5, 6, all"):
        GESTURE.card(path, {"held_out": "2,7"})
    with pytest.raises(UsageError, match="is not a subject; known: 1, 2"):
        GESTURE.card(path, {"held_out": " , "})


def test_the_classes_of_a_training_before(tmp_path: Path) -> None:
    path = people(tmp_path, 1)
    known = ("side tap right", "elbow flexion left")
    samples = GESTURE.samples(path, view(labels=known))
    assert [int(samples[n]["labels"]) for n in range(2)] == [1, 0]
    with pytest.raises(
        UsageError, match=r"1_18_8_1_1_stand\.txt: class 'side tap right' is not a class of the model's training"
    ):
        GESTURE.samples(path, view(labels=("elbow flexion left",)))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("notes.txt", "not the name of a recording: subject_date"),
        ("101_18_0_1_stand.txt", "not the name of a recording"),
        ("101_18_x_1_1_stand.txt", "not the name of a recording"),
        ("101_18_9_1_1_stand.txt", "gesture 9, the third number of its name; there are 0 to 8"),
    ],
)
def test_wrong_names(tmp_path: Path, name: str, says: str) -> None:
    recorded(tmp_path, "101_18_0_1_1_stand.txt", 2)
    recorded(tmp_path, name, 2)
    with pytest.raises(UsageError, match=f"{tmp_path / name}: {says}"):
        GESTURE.card(str(tmp_path), {})


ROW = ",".join(["1.0"] * 75)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        (f"{ROW}\n1.0,2.0\n", "row 2: has 2 columns, not 75: 25 joints"),
        (f"{ROW}\n\n", "row 2: has 1 column, not 75"),
        (f"{ROW},1.0\n", "row 1: has 76 columns"),
        (f"{ROW}\n{ROW[:-3]}one\n", "row 2: could not convert string to float: 'one"),
        (f"{ROW}\n{ROW[:-3]}nan\n", "row 2: has a number that is not finite"),
    ],
)
def test_wrong_frames(tmp_path: Path, content: str, says: str) -> None:
    recorded(tmp_path, "101_18_0_1_1_stand.txt", 2)
    bad = tmp_path / "101_18_1_1_1_stand.txt"
    bad.write_text(content)
    with pytest.raises(UsageError, match=f"{bad}: {says}") as caught:
        GESTURE.card(str(tmp_path), {})
    assert "\n" not in str(caught.value)


def test_nobody_was_tracked(tmp_path: Path) -> None:
    (tmp_path / "101_18_0_1_1_stand.txt").write_text(ROW)
    with pytest.raises(UsageError, match="hip and neck of the skeleton coincide"):
        GESTURE.samples(str(tmp_path), view())[0]


def test_what_is_no_folder_of_recordings(tmp_path: Path) -> None:
    for path, says in (("", "name the folder"), (str(tmp_path), "a folder without"), (f"{tmp_path}/x", "no such")):
        with pytest.raises(UsageError, match=says):
            GESTURE.card(path, {})


def test_a_model_of_another_width(tmp_path: Path) -> None:
    path = people(tmp_path, 1)
    with pytest.raises(UsageError, match="75 values a frame, but the model takes 2"):
        GESTURE.samples(path, View(InputSpec("features", width=2), {}))


@WITH_REAL
def test_the_real_ones() -> None:
    card = GESTURE.card(str(REAL), {})
    assert (card.items, card.classes, len(card.labels)) == (189, 9, 9)
    assert card.splits == {"train": 108, "validation": 27, "test": 54}  # 27 recordings a subject
    samples = pickle.loads(pickle.dumps(GESTURE.samples(str(REAL), view("test"))))
    items = [samples[n] for n in range(len(samples))]
    assert torch.bincount(torch.stack([item["labels"] for item in items])).tolist() == [6] * 9
    bodies = torch.stack([item["features"] for item in items]).view(-1, 25, 3)
    assert bodies.abs().max() < 4.0  # nobody is longer than four trunks from the hip
    assert bodies[:, 20].norm(dim=-1).median() == pytest.approx(1.0, abs=0.02)


@WITH_REAL
def test_the_names_of_the_gestures_say_which_limb_moves() -> None:
    limbs = {"left": (10, 18), "right": (6, 14)}  # wrist and ankle, by the data set's words for sides
    samples = GESTURE.samples(str(REAL), view("test", options={"held_out": "104"}))
    for n in range(len(samples)):
        words = gesture.GESTURES[int(samples[n]["labels"])].split()
        if words[-1] in limbs:
            frames = samples[n]["features"].view(-1, 25, 3)
            joint = int(words[0] == "side")
            moved = {side: float(frames[:, joints[joint]].std(dim=0).norm()) for side, joints in limbs.items()}
            assert max(moved, key=moved.__getitem__) == words[-1]

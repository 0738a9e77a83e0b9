"""`gesture:PATH`: skeleton recordings of IntelliRehabDS, a file each (recording_files.py); splits by subject."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import DataCard, View
from torchstone.plugins.data._named_files import entries, files_digest, is_folder, lines
from torchstone.plugins.data._table import Classes
from torchstone.plugins.protocols import DataSource, Samples

# Skeleton recordings as IntelliRehabDS hands them out: what their names say, their frames, and who is in which split.
#
# Miron, Sadawi, Ismail, Hussain, Grosan: IntelliRehabDS (IRDS), a dataset of physical rehabilitation movements, Data
# 6(5):46, 2021. A Kinect v2 gives 25 joints about 30 times a second.

COLUMNS = 75  # 25 joints × (x, y, z), in metres
# In the paper's words and order. Its left is what a Kinect's order of joints calls right, in every recording.
GESTURES = (
    "elbow flexion left",
    "elbow flexion right",
    "shoulder flexion left",
    "shoulder flexion right",
    "shoulder abduction left",
    "shoulder abduction right",
    "shoulder forward elevation",
    "side tap left",
    "side tap right",
)
EVERYBODY = "all"
_FORM = "subject_date_gesture_repetition_correct_position.txt"
_NAME = re.compile(r"(\d{1,9})_\d{1,9}_(\d{1,9})_\d{1,9}_\d{1,9}_[A-Za-z-]{1,40}", re.ASCII)
_HELD_OUT = 4  # one in so many subjects is in the test set, and again in the validation set


class Recording(msgspec.Struct, frozen=True):
    """One gesture, once, by one subject."""

    file: Path
    subject: str
    gesture: int


def recordings(path: str) -> list[Recording]:
    """Return the recordings of a folder, or of one file, by name. Raises UsageError naming one that is wrong."""
    if not path:
        raise UsageError("data gesture: name the folder of recordings: gesture:recordings")
    place = Path(path).expanduser()
    return [_recording(file) for file in (entries(place, (".txt", ".csv")) if is_folder(place) else [place])]


def _recording(file: Path) -> Recording:
    match = _NAME.fullmatch(file.stem)
    if match is None:
        raise UsageError(f"{file}: not the name of a recording: {_FORM}, for example 101_18_0_1_1_stand.txt")
    gesture = int(match[2])
    if gesture >= len(GESTURES):
        raise UsageError(f"{file}: gesture {gesture}, the third number of its name; there are 0 to {len(GESTURES) - 1}")
    return Recording(file, match[1], gesture)


def frames(file: Path) -> list[float]:
    """Return the numbers of a recording, COLUMNS a frame. Raises UsageError naming the first row that is wrong."""
    found: list[float] = []
    for number, line in enumerate(lines(file), 1):
        cells = line.split(",")
        if len(cells) != COLUMNS:
            many = "s" * (len(cells) != 1)
            raise UsageError(f"{file}: row {number}: has {len(cells)} column{many}, not {COLUMNS}: 25 joints × x, y, z")
        try:
            found.extend(map(float, cells))
        except ValueError as error:
            raise UsageError(f"{file}: row {number}: {str(error)[:80]}") from error
        if not all(map(math.isfinite, found[-COLUMNS:])):
            raise UsageError(f"{file}: row {number}: has a number that is not finite")
    return found


def by_split(recordings: Sequence[Recording], held_out: str | None) -> Mapping[str | None, Sequence[Recording]]:
    """Return the recordings of each split: nobody is in two. One subject alone is data in one piece, under None.

    `held_out`: the subjects of the test set, commas between, or EVERYBODY. Without it, a quarter of them; of the
    others again a quarter is the validation set, if that is one at least. Who it is depends on their numbers alone.
    """
    subjects = sorted(
        {one.subject for one in recordings}, key=lambda subject: hashlib.sha256(subject.encode()).digest()
    )
    if held_out is None and len(subjects) == 1:
        return {None: recordings}
    test = subjects[: max(1, round(len(subjects) / _HELD_OUT))] if held_out is None else _named(held_out, subjects)
    others = [subject for subject in subjects if subject not in test]
    validation = others[: round(len(others) / _HELD_OUT)]
    train = others[len(validation) :]
    groups = {"train": train, "validation": validation, "test": test}
    return {split: [one for one in recordings if one.subject in group] for split, group in groups.items() if group}


def _named(held_out: str, subjects: Sequence[str]) -> Sequence[str]:
    if held_out.strip() == EVERYBODY:
        return subjects
    words = [word.strip() for word in held_out.split(",") if word.strip()]
    for word in words:
        if word not in subjects:
            raise unknown("subject", word, [*subjects, EVERYBODY])
    if not words:
        raise UsageError(f"data gesture: held_out={held_out!r} is not a subject; known: {', '.join(sorted(subjects))}")
    return words


class Recordings:
    """Items of `features`, float32, `sequence_length` × 75: one gesture from its begin to its end; and `labels`."""

    def __init__(self, recordings: Sequence[Recording], labels: Sequence[int], view: View) -> None:
        self._found = recordings
        self._labels = labels
        self._length = int(view.configuration.get("sequence_length") or 20)
        self._augment = view.augment

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        from torchstone.plugins.data.gesture import skeletons

        file = self._found[index].file
        raw = torch.tensor(frames(file)).view(-1, COLUMNS // 3, 3)
        body = skeletons.normalised(raw)
        if body is None:
            raise UsageError(f"{file}: hip and neck of the skeleton coincide: no person was tracked")
        warp = skeletons.random_warp() if self._augment else 0.0
        moved = skeletons.resampled(body, self._length, warp=warp)
        if self._augment:
            moved = skeletons.augmented(moved)
        return {"features": moved.flatten(1), "labels": torch.tensor(self._labels[index])}


class Gesture(DataSource):
    """Data source `gesture`."""

    describes = "skeleton recordings: gesture:PATH, named as in IntelliRehabDS; held_out=SUBJECT,… is the test set"
    options: tuple[str, ...] = ("held_out",)

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        found = recordings(path)
        splits = by_split(found, _held_out(options))
        for one in found:
            frames(one.file)
        counts = {split: len(part) for split, part in splits.items() if split is not None}
        names = GESTURES
        return DataCard("features", len(found), len(names), files_digest([one.file for one in found]), counts, names)

    def samples(self, path: str, view: View) -> Samples:
        splits = by_split(recordings(path), _held_out(view.options))
        if view.split not in splits:
            raise unknown("split", str(view.split), [str(split) for split in splits])
        if view.input.width not in (None, COLUMNS):
            raise UsageError(f"{path}: {COLUMNS} values a frame, but the model takes {view.input.width}")
        classes, names = Classes(GESTURES, view), GESTURES
        found = splits[view.split]
        return Recordings(found, [classes.number(names[one.gesture], str(one.file)) for one in found], view)


def _held_out(options: Mapping[str, Scalar]) -> str | None:
    value = options.get("held_out")
    return None if value is None else str(value)


PLUGIN: DataSource = Gesture()

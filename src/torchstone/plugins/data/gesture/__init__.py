"""`gesture:PATH`: skeleton recordings of IntelliRehabDS, a file each (recording_files.py); splits by subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._named_files import digest_of
from torchstone.plugins.data._table_items import Classes
from torchstone.plugins.data.gesture.recording_files import COLUMNS, GESTURES, Recording, by_split, frames, recordings
from torchstone.plugins.protocols import DataSource, Samples


class Recordings:
    """Items of `features`, float32, `sequence_length` × 75: one gesture from its begin to its end; and `labels`."""

    def __init__(self, found: Sequence[Recording], labels: Sequence[int], view: View) -> None:
        self._found = found
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
            moved = skeletons.changed(moved)
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
        return DataCard("features", len(found), len(names), digest_of([one.file for one in found]), counts, names)

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

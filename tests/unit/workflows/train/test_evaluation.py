"""Which items a checkpoint is judged on."""

from pathlib import Path

import pytest

from torchstone.core.schema.case import Placement, Task, Workload
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA
from torchstone.storage.training import TrainingCard
from torchstone.workflows.train.evaluation import EvaluationRequest, _request


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two recordings each of seven people."""
    folder = tmp_path / "people"
    folder.mkdir()
    for subject in range(101, 108):
        for gesture in range(2):
            (folder / f"{subject}_18_{gesture}_1_1_stand.txt").write_text("\n".join([",".join(["0.5"] * 75)] * 3))
    return folder


def asked(folder: Path, of: Path, data: str | None) -> tuple[str | None, dict[str, object]]:
    work = Workload(Task.TRAIN, "builtin:gesture-tiny", f"gesture:{of}", "sequence")
    card = TrainingCard(SCHEMA, "r", "n", work, {"batch_size": 2}, Placement("cpu"), Procedure(), ("0", "1"))
    case, request = _request(card, EvaluationRequest(folder, data=data), folder, folder / "w.safetensors")
    assert request.evaluation is not None
    return request.evaluation.split, dict(case.workload.data_options)


def test_of_its_own_data_the_people_it_was_held_out_from(recordings: Path, tmp_path: Path) -> None:
    assert asked(tmp_path, recordings, None) == ("test", {})
    assert asked(tmp_path, recordings, str(recordings)) == ("test", {})


def test_of_data_it_has_never_seen_everybody(recordings: Path, tmp_path: Path) -> None:
    assert asked(tmp_path, tmp_path / "elsewhere", str(recordings)) == ("test", {"held_out": "all"})

"""What every exporter owes: it is found by name, writes what it is given, and loses nothing it says it keeps."""

import csv
import json
import math
from pathlib import PurePath

import pyarrow.parquet as pq
import pytest
from build import a_run, a_trial

from torchstone.analysis.rows import case_rows, sample_rows, trial_rows
from torchstone.plugins import registry
from torchstone.plugins.protocols import Exporter
from torchstone.storage.query import read_run

RUN = a_run([a_trial(steady={"loss": [1.0, math.nan]}, facts={"odd": "=1+1"}), a_trial(trial_id="t1", number=1)])
NAMES = registry.names("exporters")


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


READERS = {
    ".csv": read_csv,
    ".json": lambda path: json.loads(path.read_text(), parse_constant=pytest.fail)["rows"],
    ".jsonl": lambda path: [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()],
    ".parquet": lambda path: pq.read_table(path).to_pylist(),
}


def test_they_are_there_and_say_where_their_files_go():
    trackers = {"mlflow", "prometheus", "tensorboard", "wandb"}
    assert set(NAMES) >= {"csv", "json", "jsonl", "parquet", "svg", *trackers}
    for name in NAMES:
        folder = PurePath(registry.load("exporters", name).folder)
        assert folder.parts
        assert not folder.is_absolute()
        assert ".." not in folder.parts


@pytest.mark.parametrize("name", ["csv", "json", "jsonl", "parquet"])  # charts and trackers keep no rows
@pytest.mark.parametrize("rows", [case_rows, trial_rows, sample_rows])
def test_rows_come_back(tmp_path, name, rows):
    exporter: Exporter = registry.load("exporters", name)
    assert exporter.describes
    path = tmp_path / f"x{exporter.suffix}"
    made = rows(RUN)
    exporter.write(RUN, made, path)
    back = READERS[exporter.suffix](path)
    assert len(back) == len(made)
    assert [list(row) for row in back] == [list(row) for row in made]
    number = "value" if rows is sample_rows else "throughput"
    for row, wanted in zip(back, made, strict=True):
        if isinstance(wanted[number], float) and math.isfinite(wanted[number]):
            assert float(row[number]) == wanted[number]


def test_the_json_export_is_a_document(tmp_path):
    registry.load("exporters", "json").write(RUN, case_rows(RUN), tmp_path / "x.json")
    back = read_run(tmp_path / "x.json")
    assert str(back.trials[0].values("loss")) == "(1.0, nan)"
    assert (back.head, back.end) == (RUN.head, RUN.end)


def test_a_diverged_value_is_not_a_missing_one(tmp_path):
    rows = [{"value": math.nan}, {"value": None}, {"value": -math.inf}]
    registry.load("exporters", "jsonl").write(RUN, rows, tmp_path / "x.jsonl")
    assert [row["value"] for row in READERS[".jsonl"](tmp_path / "x.jsonl")] == ["NaN", None, "-Infinity"]

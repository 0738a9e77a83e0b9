"""`torchstone.Diagnostics` in this process: real steps, real pictures, and what goes wrong as rows."""

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchstone
from torchstone.cli import main

pytestmark = pytest.mark.xdist_group("diagnostics")  # one measurement serves all its tests

PAIRS = TensorDataset(torch.randn(256, 6), torch.randint(0, 3, (256,)))
LOSS = nn.functional.cross_entropy
QUICK: Any = {"iterations": 4, "warmup": 1, "devices": ["cpu"]}


class Narrow(nn.Module):
    """Has no room for large batches."""

    def __init__(self, most: int = 10**6):
        super().__init__()
        self.layer, self.most = nn.Linear(6, 3), most

    def forward(self, x):
        if len(x) > self.most:
            raise torch.OutOfMemoryError(f"Tried to allocate {len(x)} GiB")
        return self.layer(x)


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory):
    """One diagnosis for the tests that look at it: a size without room, a device that is not here."""
    folder = tmp_path_factory.mktemp("diagnosed")
    model = Narrow(most=64)
    optimizer = torch.optim.AdamW(model.parameters())
    before = copy.deepcopy(model.state_dict())
    absent = "mps" if torch.cuda.is_available() else "cuda"
    diagnostics = torchstone.Diagnostics(model, LOSS, optimizer, output_dir=folder)
    loader = DataLoader(PAIRS, batch_size=16, shuffle=True)
    diagnostics.run(loader, [8, 16, 32, 128], devices=["cpu", absent], iterations=4, warmup=1)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    return diagnostics


def test_each_batch_size_is_a_row_and_so_is_what_failed(diagnosed):
    rows = diagnosed.results()
    assert [(row["device"], row["batch_size"], row["status"]) for row in rows[:-1]] == [
        ("cpu", 8, "ok"), ("cpu", 16, "ok"), ("cpu", 32, "ok"), ("cpu", 128, "out_of_memory"),
    ]  # fmt: skip
    assert rows[-1]["status"] == "skipped"
    assert "not found" in str(rows[-1]["message"])
    assert "Tried to allocate 128 GiB" in str(rows[3]["message"])
    for row in rows[:3]:
        parts = [row[f"{phase}_s"] for phase in ("data", "transfer", "forward", "backward", "optimizer", "rest")]
        assert all(part > 0 for part in parts)
        assert row["throughput"] == pytest.approx(row["batch_size"] / row["step_s"], rel=0.3)
        assert row["peak_rss_bytes"] > 2**20
        assert row["peak_reserved_bytes"] is None, "a CPU's allocator tells nothing"
    assert rows[3]["throughput"] is None


def test_it_is_an_ordinary_run(diagnosed, capsys):
    folder = diagnosed.summary.record.partition("/records")[0]
    assert main(["show", "latest", "--json", "--output-dir", folder]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["run_id"] == diagnosed.summary.run_id
    assert [case["configuration"]["batch_size"] for case in found["cases"]] == [8, 16, 32, 128]
    assert found["cases"][0]["workload"]["data"] == "loader:DataLoader"
    assert found["cases"][0]["configuration"]["feed"] == "loader"
    assert found["cases"][3]["trials"][0]["outcome"]["status"] == "out_of_memory"


def test_pictures_and_reports_have_the_names_that_people_know(diagnosed, tmp_path):
    pytest.importorskip("vl_convert")
    paths = [
        diagnosed.plot_throughput_vs_batch_size(), diagnosed.plot_time_breakdown(), diagnosed.plot_memory_usage(),
    ]  # fmt: skip
    text = diagnosed.report()
    assert {path.name for path in diagnosed.folder.iterdir()} == {
        "throughput_vs_batch_size.png", "time_breakdown.png", "memory_usage.png", "performance_report.md",
    }  # fmt: skip
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert (diagnosed.folder / "performance_report.md").read_text() == text
    assert text.startswith("# Diagnosis of ")
    for part in ("- kind: ", "it was measured in a program of yours", "| 128 | out of memory |", "## Skipped",
                 "Which is fastest is not known", "](time_breakdown.png)"):  # fmt: skip
        assert part in text
    other = diagnosed.report(tmp_path / "other" / "mine.md")
    assert "![" not in other, "no picture lies beside that one"


def test_a_data_set_batches_and_an_example_will_do(tmp_path):
    def sizes(data, asked=None):
        found = torchstone.Diagnostics(Narrow(), LOSS, torch.optim.SGD, output_dir=tmp_path).run(data, asked, **QUICK)
        return [(row["batch_size"], row["status"]) for row in found.results()]

    assert sizes(PAIRS, [8, 300]) == [(8, "ok"), (300, "unsupported")], "300 are more than there are"
    assert sizes([PAIRS[:8]] * 3) == [(8, "ok")], "batches have the size that they have"
    assert sizes([PAIRS[:8]] * 3, [8, 16]) == [(8, "ok"), (16, "unsupported")]
    assert sizes(PAIRS[:8], [4]) == [(4, "ok")]


def test_what_the_model_raises_goes_on_and_nothing_is_written(outputs):
    model = nn.Linear(7, 3)
    before = model.weight.clone()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        torchstone.Diagnostics(model, LOSS).run(PAIRS, [8], **QUICK)
    assert torch.equal(model.weight, before)
    assert not outputs.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iterations": 0}, "iterations=0 is too small"),
        ({"batch_sizes": []}, "batch_sizes is empty"),
        ({"batch_sizes": [0]}, "axis batch_size: 0 is too small"),
        ({"devices": ["cud"]}, "Did you mean 'cuda'"),
        ({"devices": ["cpu:7"]}, "no device to measure on: device cpu:7 not found"),
    ],
    ids=str,
)
def test_a_wrong_request_says_what_there_is(outputs, changes, said):
    with pytest.raises(torchstone.UsageError, match=said):
        torchstone.Diagnostics(Narrow(), LOSS).run(PAIRS, **{**QUICK, **changes})
    assert not outputs.exists()


def test_what_is_missing_is_told():
    with pytest.raises(torchstone.UsageError, match=r"pass loss_fn=…, or batches that are mappings with labels"):
        torchstone.Diagnostics(Narrow()).run(PAIRS.tensors[0], [4], **QUICK)
    numbers = TensorDataset(PAIRS.tensors[0], torch.randn(256, 3))
    with pytest.raises(torchstone.UsageError, match=r"pass loss_fn=….* these are float32 of shape \(8, 3\)"):
        torchstone.Diagnostics(Narrow()).run(numbers, [8], **QUICK)
    with pytest.raises(torchstone.UsageError, match=r"call \.run\(loader\) first"):
        torchstone.Diagnostics(Narrow(), LOSS).results()


def test_without_a_loss_class_numbers_have_cross_entropy(tmp_path):
    model = Narrow()
    named, usual = (
        torchstone.Diagnostics(model, loss, torch.optim.SGD, output_dir=tmp_path).run(PAIRS, [8], **QUICK).summary
        for loss in (LOSS, None)
    )
    assert named.cases[0].estimates["loss_first"].value == usual.cases[0].estimates["loss_first"].value


def test_a_cell_that_ends_with_it_shows_what_was_measured_and_where_it_lies(diagnosed):
    shown = repr(diagnosed)
    assert "train module:Narrow, batch 8, on cpu: " in shown
    assert "skipped " in shown
    assert shown.endswith(f"pictures and report: {diagnosed.folder}")
    assert repr(torchstone.Diagnostics(Narrow())) == "Diagnostics(Narrow): nothing was measured yet"


def test_the_one_call_is_refused_before_it_measures_what_it_could_not_draw(outputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(torchstone.MissingError, match=r"torchstone\[charts\]"):
        torchstone.run_kaggle_analysis(Narrow(), PAIRS, [8], loss_fn=LOSS)
    assert not outputs.exists()


def test_the_seeds_one_call(tmp_path):
    pytest.importorskip("vl_convert")
    found = torchstone.run_kaggle_analysis(
        Narrow(), DataLoader(PAIRS, batch_size=8), [8, 16], loss_fn=LOSS, iterations=3, devices=[torch.device("cpu")],
        output_dir=tmp_path,
    )  # fmt: skip
    assert len(list(Path(found.folder).iterdir())) == 4

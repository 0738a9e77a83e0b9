"""The gauges of a test: as a table, and in three numbers each."""

import csv

from build import a_trial

from torchstone.core.schema.trial import Series
from torchstone.workflows.train.evaluation import GaugeSummary, summary_of, write_gauges

CARD = (
    Series("device_utilization", "nvml", (0.0, 0.5, 1.0), (0.2, 0.9, 0.7), "cuda:0"),
    Series("device_memory_used_bytes", "nvml", (0.0, 0.5), (1e9, 3e9), "cuda:0"),
    Series("device_energy_j", "nvml", (0.0, 0.5), (100.0, 150.0), "cuda:0"),
    Series("process_cpu_s", "process", (0.0, 0.5), (1.0, 2.0)),
    Series("of a later version", "nvml", (0.0,), (1.0,)),
)


def test_a_card_s_gauges_in_three_numbers_each():
    found = summary_of(CARD)
    assert list(found) == ["device_utilization", "device_memory_used_bytes"], "counters have no mean"
    assert found["device_utilization"] == GaugeSummary(0.6, 0.2, 0.9, 3)
    assert found["device_memory_used_bytes"] == GaugeSummary(2e9, 1e9, 3e9, 2)
    assert summary_of([]) == {}


def test_every_reading_is_a_row_with_its_device(tmp_path):
    write_gauges(a_trial(series=CARD[:1] + CARD[3:4]), tmp_path / "gauges.csv")
    with (tmp_path / "gauges.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["at_s", "metric", "value", "source", "device"],
        ["0.0", "device_utilization", "0.2", "nvml", "cuda:0"], ["0.5", "device_utilization", "0.9", "nvml", "cuda:0"],
        ["1.0", "device_utilization", "0.7", "nvml", "cuda:0"],
        ["0.0", "process_cpu_s", "1.0", "process", ""], ["0.5", "process_cpu_s", "2.0", "process", ""],
    ]  # fmt: skip

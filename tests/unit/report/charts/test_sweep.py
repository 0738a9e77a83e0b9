"""The pictures of a diagnosis: a panel a device, what failed in its place, nothing that was not measured."""

import pytest
from marks import layers, names_of, places_of, rows

from torchstone.core.charts.drawing import draw
from torchstone.core.charts.vega_lite import Panel
from torchstone.core.errors import UsageError
from torchstone.report.documents import sweep as charts
from torchstone.report.documents.sweep import COLUMNS, Row

SHARES = {"data_s": 0.1, "forward_s": 0.3, "backward_s": 0.4, "optimizer_s": 0.15, "rest_s": 0.05}


def row(device: str, size: int | None, rate: float | None = None, status: str = "ok") -> Row:
    found: Row = dict.fromkeys(("device", "batch_size", "status", "message", *COLUMNS, "verdict"))
    found.update(device=device, batch_size=size, status=status, throughput=rate)
    if rate is not None and size is not None:
        found.update({name: share * size / rate for name, share in SHARES.items()}, peak_rss_bytes=2.0**30)
        found["peak_reserved_bytes"] = 2.0**31 if device != "cpu" else None
    return found


ROWS = [
    row("cpu", 8, 100.0), row("cpu", 32, 200.0), row("cuda:0", 8, 1000.0), row("cuda:0", 32, None, "out_of_memory"),
    row("xpu", None, None, "skipped"),
]  # fmt: skip


def words(panel: Panel) -> list[tuple[str, str]]:
    return [(value["batch"], value["word"]) for value in rows(panel, "failure")]


def test_throughput_has_a_panel_for_each_device_that_was_measured():
    cpu, cuda = charts.throughput(ROWS, "run x").panels
    assert (cpu.title, cuda.title) == ("cpu", "cuda:0")
    assert [(one["batch"], one["throughput"]) for one in cpu.values] == [("8", 100.0), ("32", 200.0)]
    assert [(one["batch"], one["throughput"]) for one in cuda.values] == [("8", 1000.0)]
    assert places_of(cuda) == ("8", "32"), "what failed keeps its place"
    assert words(cpu) == []
    assert words(cuda) == [("32", "out of memory")]


def test_a_rate_has_its_interval_and_one_trial_says_that_there_is_none():
    assert charts.throughput(ROWS, "run x").subtitle == "run x; one trial a case: no interval"
    known = charts.throughput([{**ROWS[0], "throughput_low": 90.0, "throughput_high": 111.0}], "run x")
    (panel,) = known.panels
    (bars,) = layers(panel, "interval")
    assert [panel.values[0][bars["encoding"][end]["field"]] for end in ("y", "y2")] == [90.0, 111.0]
    assert known.subtitle == "run x; bars: 95 % confidence intervals over trials"


def test_phases_are_drawn_in_their_order_and_only_those_there_are():
    panels = charts.time_breakdown(ROWS, "run x").panels
    assert [panel.title.rpartition(": ")[2] for panel in panels] == ["ms a step", "share of the step"] * 2
    assert [panel.channel("y").get("stack") for panel in panels] == [None, "normalize"] * 2
    values = [value for value in panels[0].values if value["batch"] == "8"]
    assert [value["phase"] for value in values] == ["data", "forward", "backward", "optimizer", "rest"]
    assert names_of(panels[0]) == ("data", "forward", "backward", "optimizer", "rest")
    assert sum(value["ms"] for value in values) == pytest.approx(80.0), "8 items at 100 a second"


def test_memory_names_only_what_was_measured():
    def named(measured):
        return names_of(charts.memory(measured, "run x").panels[0])

    assert named(ROWS) == ("host (resident)", "device (reserved)")
    assert named(ROWS[:2]) == ("host (resident)",)


def test_s4_56_memory_of_the_cpu_and_of_the_gpu_is_drawn(tmp_path):
    picture = charts.memory(ROWS, "run x")
    cpu, cuda = picture.panels
    host, device = {"kind": "host (resident)", "mib": 1024.0}, {"kind": "device (reserved)", "mib": 2048.0}
    assert cpu.values == [{"batch": "8", **host}, {"batch": "32", **host}]
    assert cuda.values == [{"batch": "8", **host}, {"batch": "8", **device}]
    pytest.importorskip("vl_convert")
    drawn = draw(picture, tmp_path / "memory.svg").read_text(encoding="utf-8")
    assert all(f"kind: {kind}" in drawn for kind in ("host (resident)", "device (reserved)"))


def test_nothing_measured_is_nothing_to_draw():
    with pytest.raises(UsageError, match="nothing was measured to the end"):
        charts.throughput(ROWS[3:], "run x")


@pytest.mark.parametrize("make", [charts.throughput, charts.time_breakdown, charts.memory])
def test_each_is_a_picture(tmp_path, make):
    pytest.importorskip("vl_convert")
    data = draw(make(ROWS, "run x"), tmp_path / "new" / "x.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert width > 1200
    assert height > 500

"""`report --plots`, `report --format png` and `show --plot` through the real CLI."""

import re
import sys
from pathlib import Path

import charted
import msgspec
import pytest
from build import a_run
from stored import store

from torchstone.cli import main

RUN_ID = "20261121-100000-abcd"


@pytest.fixture
def said(capfd):
    """Run a command that must succeed; return what it printed."""

    def run(*words: str) -> str:
        capfd.readouterr()
        assert main(list(words)) == 0
        return capfd.readouterr().out

    return run


@pytest.fixture
def stored(outputs):
    store(outputs, [charted.a_training_sweep()])
    return outputs


def test_s4_54_to_56_plots_have_the_names_that_people_know(stored, said, tmp_path):
    pytest.importorskip("vl_convert")
    written = [Path(line) for line in said("report", "--plots", str(tmp_path / "plots")).splitlines()]
    names = {path.name for path in written}
    for name in ("throughput_vs_batch_size", "time_breakdown", "memory_usage", "batch_times", "gpu_metrics"):
        assert {f"{name}.png", f"{name}.svg"} <= names
    assert all(path.parent == tmp_path / "plots" and path.stat().st_size > 0 for path in written)
    assert not (stored / "reports").exists(), "plots alone were asked for"


def test_a_page_links_the_pictures_beside_it_and_without_them_its_first(stored, said, tmp_path):
    pytest.importorskip("vl_convert")
    *_, page = said("report", "--plots", str(tmp_path / "my plots"), "--format", "md").splitlines()
    links = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", Path(page).read_text(encoding="utf-8"))
    assert len(links) > 5
    for link in links:
        assert (Path(page).parent / link.replace("%20", " ")).is_file()
    picture, alone = map(Path, said("report").splitlines())
    (link,) = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", alone.read_text(encoding="utf-8"))
    assert alone.parent / link == picture, "that which the report is about"


def test_of_several_runs_each_has_a_folder_of_its_own(stored, said, tmp_path):
    pytest.importorskip("vl_convert")
    other = charted.one_trial()
    head = msgspec.structs.replace(other.head, run_id="20261122-100000-beef", name="other")
    store(stored, [msgspec.structs.replace(other, head=head)])
    said("report", RUN_ID, "other", "--plots", str(tmp_path / "plots"))
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [RUN_ID, "20261122-100000-beef"]


def test_a_folder_of_png(stored, said):
    pytest.importorskip("vl_convert")
    files = said("report", "--format", "png").splitlines()
    assert str(stored / "reports" / f"{RUN_ID}_pictures" / "throughput_vs_batch_size.png") in files
    assert all(Path(file).read_bytes().startswith(b"\x89PNG") for file in files)


def test_without_the_library_it_says_what_to_install(stored, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["report", "--format", "png"]) != 0
    assert "pip install 'torchstone[charts]'" in capfd.readouterr().err


def test_a_run_with_nothing_to_draw_and_a_folder_that_is_a_file(stored, outputs, capfd, tmp_path):
    store(outputs, [_empty()])
    assert main(["report", "empty", "--plots", str(tmp_path / "plots")]) == 2
    assert "nothing to draw" in capfd.readouterr().err
    pytest.importorskip("vl_convert")
    (tmp_path / "taken").write_text("")
    assert main(["report", RUN_ID, "--plots", str(tmp_path / "taken")]) == 2
    assert f"cannot write into {tmp_path / 'taken'}" in capfd.readouterr().err


def _empty():
    run = a_run([])
    head = msgspec.structs.replace(run.head, run_id="20261120-100000-beef", name="empty")
    return msgspec.structs.replace(run, head=head)


def test_a_curve_in_characters_below_what_show_says(stored, said):
    page = said("show")
    drawn = said("show", "--plot")
    assert drawn.startswith(page)
    below = drawn[len(page) :]
    assert "Throughput by batch size" in below
    assert "no value: 128 out of memory: fp32; 32 timed out: bf16" in " ".join(below.split())
    assert below.count("●") == 8


def test_one_batch_size_is_no_curve(outputs, capfd):
    store(outputs, [_empty()])
    assert main(["show", "--plot"]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert "--batch-sizes" in said.err


def test_s1_63_one_report_of_several_runs_compares_them_with_pictures(stored, said, tmp_path):
    pytest.importorskip("vl_convert")
    other = charted.a_training_sweep()
    head = msgspec.structs.replace(other.head, run_id="20261122-100000-beef", name="other")
    store(stored, [msgspec.structs.replace(other, head=head)])
    files = said("report", RUN_ID, "other", "--compare", "--plots", str(tmp_path), "--format", "md").splitlines()
    names = {Path(file).name for file in files}
    assert {"comparison_throughput.png", "comparison_throughput.svg"} <= names
    page = stored / "reports" / f"comparison_{RUN_ID}_20261122-100000-beef.md"
    assert str(page) in files
    text = page.read_text(encoding="utf-8")
    assert "BENCHMARK COMPARISON" in text
    assert "comparison_throughput.svg)" in text


def test_one_run_cannot_be_compared(stored, capfd):
    assert main(["report", RUN_ID, "--compare"]) == 2
    assert "compare needs two or more runs" in capfd.readouterr().err

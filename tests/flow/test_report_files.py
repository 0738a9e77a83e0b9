"""`torchstone report` as PDF, slides and CSV through the real CLI: what is written, what is refused, how fast."""

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from build import a_sweep
from reported import a_swept_run
from stored import store

from torchstone.cli import main
from torchstone.core.schema.case import Task

# What the program prints behind its answer: its CPU seconds, which neighbours hardly change, and its peak memory (KiB).
# Not ru_maxrss: in that a program begins with the peak of the one that started it.
USED = """
import time
status = dict(line.split(':', 1) for line in open('/proc/self/status', encoding='utf-8'))
print(time.process_time(), status['VmHWM'].split()[0])"""
PHASES = {"data": 0.3, "transfer": 0.02, "forward": 0.25, "backward": 0.35, "optimizer": 0.05, "rest": 0.03}


def a_run_of(batch_sizes, workers=(0,)):
    """A sweep over batch sizes, numbers of workers and precisions."""
    points = [
        ({"num_workers": w, "batch_size": b, "precision": p, "feed": "loader", "pin_memory": False}, 0.02 + 1e-3 * b)
        for w in workers for b in batch_sizes for p in ("fp32", "bf16")
    ]  # fmt: skip
    return a_sweep(points, phases=PHASES, utilization=0.6)


def test_s4_08_to_10_a_report_as_pdf_slides_and_csv(outputs, capfd):
    pytest.importorskip("typst")
    pytest.importorskip("pptx")
    store(outputs, [a_run_of((8, 32))])
    assert main(["report", "--format", "pdf,pptx,csv"]) == 0
    pdf, pptx, table = (Path(line) for line in capfd.readouterr().out.split())
    assert [path.suffix for path in (pdf, pptx, table)] == [".pdf", ".pptx", ".csv"]
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert pptx.read_bytes().startswith(b"PK")
    rows = list(csv.reader(io.StringIO(table.read_text(encoding="utf-8-sig"), newline=""), strict=True))
    assert any("batch size" in " ".join(row) for row in rows)


def test_without_its_record_a_page_is_smaller_and_cannot_be_verified(outputs, capfd):
    pytest.importorskip("jinja2")
    store(outputs, [a_swept_run()])
    sizes = []
    for words in ((), ("--no-record",)):
        assert main(["report", "--format", "html", *words]) == 0
        page = Path(capfd.readouterr().out.strip())
        sizes.append(page.stat().st_size)
    assert sizes[1] < sizes[0]
    assert main(["verify", str(page)]) == 2
    assert "carries no record" in capfd.readouterr().err


def test_reports_are_in_the_language_that_was_asked_for_and_follow_from_their_record(outputs, capfd):
    pytest.importorskip("jinja2")
    store(outputs, [a_swept_run()])
    assert main(["report", "--format", "html,md,csv,json", "--lang", "ko"]) == 0
    written = {Path(line).suffix: Path(line) for line in capfd.readouterr().out.split()}
    page, text, table, document = (written[suffix] for suffix in (".html", ".md", ".csv", ".json"))
    assert '<html lang="ko">' in page.read_text(encoding="utf-8")
    assert "신뢰구간" in text.read_text(encoding="utf-8")
    assert re.search("[가-힣]", table.read_text(encoding="utf-8") + document.read_text(encoding="utf-8")) is None
    assert main(["verify", str(page), "--lang", "ko"]) == 0
    assert "모든 지표와 판정이 기록에서 나옴" in " ".join(capfd.readouterr().out.split())
    page.write_text(page.read_text(encoding="utf-8").replace("가장 빠름", "가장 느림", 1), encoding="utf-8")
    assert main(["verify", str(page), "--lang", "ko"]) == 1


def test_s3_69_training_and_inference_in_one_report_that_is_verified(outputs, capfd):
    learnt, served = (a_run_of((8, 32)) for _ in range(2))
    head = msgspec.structs.replace(
        served.head, run_id="20261122-100000-beef", name="served",
        plan=msgspec.structs.replace(served.head.plan, cases=tuple(map(_served, served.head.plan.cases)), slots=()),
    )  # fmt: skip
    ids = {one.case_id: _served(one).case_id for one in served.head.plan.cases}
    trials = tuple(msgspec.structs.replace(one, case_id=ids[one.case_id]) for one in served.trials)
    store(outputs, [learnt, msgspec.structs.replace(served, head=head, trials=trials)])
    assert main(["report", learnt.head.run_id, "served", "--combined", "--format", "html,md"]) == 0
    written = {Path(line).suffix: Path(line) for line in capfd.readouterr().out.split()}
    page, text = written[".html"], written[".md"]
    told = text.read_text(encoding="utf-8")
    assert told.startswith("# Training and inference of ")
    assert "Training: " in told
    assert "Inference: served" in told
    assert main(["verify", str(page)]) == 0
    assert "follows from its record (2 runs, 8 cases" in " ".join(capfd.readouterr().out.split())


def _served(one):
    return msgspec.structs.replace(one, workload=msgspec.structs.replace(one.workload, task=Task.INFER))


def test_one_report_of_one_run_or_of_two_kinds_is_refused(outputs, capfd):
    store(outputs, [a_run_of((8,))])
    for words, said in ((("latest", "latest"), "needs two or more different runs"), ((), "needs two or more")):
        assert main(["report", *words, "--combined"]) == 2
        assert said in capfd.readouterr().err
    assert main(["report", "--combined", "--compare"]) == 2
    assert "give one of them" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [("typst", "pdf", "PDF needs typst"), ("pptx", "pptx", "PowerPoint slides need python-pptx")],
)
def test_without_its_library_a_format_says_what_to_install(monkeypatch, outputs, capfd, module, name, told):
    store(outputs, [a_run_of((8,))])
    monkeypatch.setitem(sys.modules, module, None)  # as Python has it for what cannot be imported
    assert main(["report", "--format", name]) == 3
    said = capfd.readouterr()
    assert said.err == f"torchstone: {told}: pip install 'torchstone[report]'\n"
    assert said.out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize(
    ("name", "module", "most_s"), [("pdf", "typst", 10.0), ("pptx", "pptx", 10.0), ("csv", "csv", 10.0)]
)
def test_336_cases_are_written_in_seconds_and_bounded_memory(outputs, name, module, most_s):
    pytest.importorskip(module)
    store(outputs, [a_run_of(range(8, 8 * 22, 8), workers=range(8))])
    program = f"from torchstone.cli import main\nassert main(['report', '--format', {name!r}]) == 0{USED}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    *paths, cpu_s, peak_kib = done.stdout.split()
    assert float(cpu_s) < most_s
    assert int(peak_kib) * 1024 < 600e6
    assert {Path(path).suffix for path in paths} == {f".{name}", ".csv"}, "what does not fit is in the table beside it"
    assert sum(Path(path).stat().st_size for path in paths) < 10e6

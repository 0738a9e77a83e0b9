"""show, runs, list, export and import through the real CLI, on records that are made by hand."""

import csv
import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.cli import main
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.codec import encode
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import End, Run
from torchstone.core.schema.trial import Trial

RUN_ID = "20261121-100000-abcd"
GPU = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", 140 * 2**30, "9.0", "570.1", "13.0")


def run_of(run_id: str = RUN_ID, name: str = "mine", **head) -> Run:
    """Training in two settings on a CPU, and inference on a GPU: three trials each."""
    answering = a_case(task=Task.INFER, model="hf:gpt2", placement=Placement("cuda", 0))
    cases = [a_case(), a_case({"batch_size": 64, "precision": "bf16"}), answering]
    trials: list[Trial] = []
    for number in range(3):
        for place, case in enumerate(cases):
            about: Any = {
                "trial_id": f"t{place}{number}",
                "case_id": case.case_id,
                "number": number,
                "order": len(trials),
            }
            window = "latency" if place == 2 else "throughput"
            steady = {"peak_rss_bytes": (3e8,), "peak_reserved_bytes": (2e9,), "loss": (2.3, 1.1)}
            setup = {"first_step_time_s": (0.2,), "model_load_time_s": (0.3,)}
            times = [0.01 + 0.0001 * number + 0.00001 * step for step in range(20)]
            facts = {"parameters": 123_456, "dataset_items": 1797}
            trials.append(a_trial(times, window=window, steady=steady, setup=setup, facts=facts, **about))
    run = a_run(trials, cases=cases, machine=a_machine(devices=(DeviceInfo("cpu", "cpu", "Intel", 0, "a CPU"), GPU)))
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, run_id=run_id, name=name, **head))


def record(path, run: Run):
    end = run.end or End("2026-11-21T10:01:00Z", "done")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encode(line) + b"\n" for line in (run.head, *run.trials, end)))
    return path


def started(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def stored(outputs):
    """A store with two runs, the second the newer."""
    record(outputs / "records" / f"{RUN_ID}.jsonl", run_of())
    newer = run_of("20261122-100000-beef", "other", started_utc="2026-11-22T10:00:00Z")
    record(outputs / "records" / "20261122-100000-beef.jsonl", newer)
    return outputs


@pytest.fixture
def said(capfd):
    """Run a command that must succeed without a word on stderr; return what it printed."""

    def call(*words: str) -> str:
        capfd.readouterr()
        assert main(list(words)) == 0
        out, err = capfd.readouterr()
        assert err == ""
        return out

    return call


@pytest.mark.parametrize("word", [RUN_ID, "20261121", "mine", "{record}"])
def test_show_finds_a_run_by_what_it_is_called(stored, said, word):
    word = word.format(record=stored / "records" / f"{RUN_ID}.jsonl")
    assert f"torchstone show {RUN_ID} --full" in said("show", word)
    found = json.loads(said("show", word, "--json"))
    assert found["run_id"] == RUN_ID
    assert len(found["cases"]) == 3
    assert found["cases"][0]["estimates"]["throughput"]["trials"] == 3


def test_show_without_a_word_is_the_newest(stored, said):
    assert said("show") == said("show", "latest")
    assert "torchstone show 20261122-100000-beef --full" in said("show")


def test_a_prefix_of_several_names_them(stored, capfd):
    assert main(["show", "202611"]) == 2
    line = capfd.readouterr().err
    assert "matches several runs: 20261122-100000-beef, 20261121-100000-abcd" in line


def test_show_full_is_the_whole_report(stored, said):
    text = said("show", "mine", "--full")
    blocks = [line for line in text.splitlines() if line.startswith("[") and line.isupper()]
    assert blocks[:4] == ["[SYSTEM]", "[DEVICES]", "[MODEL]", "[DATA]"]
    assert {"[THROUGHPUT]", "[INFERENCE PERFORMANCE]", "[TRAINING]", "[MEMORY]", "[RUNTIME]"} <= set(blocks)
    assert blocks[-1] == "[TOTAL RUNTIME]"
    for part in ("NVIDIA H200", "123,456 parameters", "1,797 items", "loss_last", "peak_reserved_bytes"):
        assert part in text


@pytest.mark.parametrize("width", [80, 160])
def test_tables_fit_the_terminal(stored, said, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = said("show", "mine").splitlines()
    rules = [place for place, line in enumerate(lines) if set(line.strip()) == {"─"}]
    assert len(rules) == 2, "one table a workload and device"
    for place in rules:
        table = lines[place - 2 : place] + list(_until_blank(lines[place:]))
        assert max(map(len, table)) <= width
        assert not any("…" in line for line in table), "columns leave whole"
    assert ("in a wider terminal" in " ".join(lines)) is (width == 80)
    for command in (["runs"], ["list"]):
        assert max(len(line) for line in said(*command).splitlines()) <= width


def _until_blank(lines):
    for line in lines:
        if not line.strip():
            return
        yield line


def test_runs_lists_the_newest_first(stored, said):
    found = json.loads(said("runs", "--json"))
    assert [run["run_id"] for run in found["runs"]] == ["20261122-100000-beef", RUN_ID]
    assert found["problems"] == []
    assert [run["name"] for run in json.loads(said("runs", "--json", "--limit", "1"))["runs"]] == ["other"]
    assert [run["name"] for run in json.loads(said("runs", "--json", "--name", "min"))["runs"]] == ["mine"]
    assert json.loads(said("runs", "--json", "--device", "mps"))["runs"] == []
    text = said("runs")
    assert text.index("20261122-100000-beef") < text.index(RUN_ID)
    assert "9/9" in text
    assert said("runs", "--rebuild") == text


def test_a_file_that_is_no_record_is_told_and_the_others_are_listed(stored, said):
    (stored / "records" / "junk.jsonl").write_text("junk\n")
    text = said("runs")
    assert RUN_ID in text
    assert "unreadable: " in text
    assert "junk.jsonl" in text


def test_runs_of_an_empty_store_say_how_to_begin(said, outputs):
    assert "torchstone run smoke" in said("runs")
    assert not outputs.exists()


LISTS = {
    "recipes": "smoke", "models": "builtin:cnn", "data": "digits", "devices": "cuda", "axes": "batch_size",
    "metrics": "throughput",
    "tasks": "train", "isolation": "fork", "telemetry": "nvml", "checks": "nan_loss", "formats": "parquet",
    "reports": "md",
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_each_list(said, what):
    assert LISTS[what] in said("list", what)
    found = json.loads(said("list", what, "--json"))
    assert list(found) == [what]
    assert LISTS[what] in [row["name"] for row in found[what]]
    assert all(row["meaning"] for row in found[what])


def test_a_plugin_that_does_not_import_does_not_hide_the_others(tmp_path, outputs):
    about = tmp_path / "foreign" / "broken-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    families = ("exporters", "models", "checks")
    (about / "entry_points.txt").write_text(
        "".join(f"[torchstone.{family}]\nbroken = no_such_module:PLUGIN\n" for family in families)
    )
    code = f"import sys; sys.path.insert(0, {str(about.parent)!r}); from torchstone.cli import main; sys.exit(main())"
    for what, other in (("formats", "parquet"), ("models", "builtin:cnn"), ("checks", "nan_loss")):
        answer = started(sys.executable, "-c", code, "list", what)
        assert answer.returncode == 0, answer.stderr
        assert other in answer.stdout
        assert "of package broken 1.0 cannot be imported" in " ".join(answer.stdout.split())
        assert "no_such_module" in " ".join(answer.stdout.split())


@pytest.mark.parametrize("rows", ["cases", "trials", "samples"])
@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_export_writes_every_kind_of_row_in_every_format(stored, said, tmp_path, form, rows):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    target = tmp_path / f"rows.{form}"
    assert said("export", "mine", "--rows", rows, "--to", str(target)).strip() == str(target)
    if form == "csv":
        found = list(csv.DictReader(target.read_text().splitlines()))
    elif form == "parquet":
        import pyarrow.parquet

        found = pyarrow.parquet.read_table(target).to_pylist()
    elif form == "json":
        found = json.loads(target.read_text())["rows"]
    else:
        found = [json.loads(line) for line in target.read_text().splitlines()]
    assert {"cases": len(found) == 3, "trials": len(found) == 9, "samples": len(found) > 500}[rows]
    wanted = {"cases": "throughput_low", "trials": "throughput", "samples": "value"}[rows]
    assert any(row[wanted] not in (None, "") for row in found)
    assert all(row["run_id"] == RUN_ID for row in found)


def test_export_without_a_name_goes_beside_the_records_and_may_be_repeated(stored, said):
    said("export", "mine")
    assert (stored / "data" / f"{RUN_ID}_cases.csv").exists()
    said("export", "mine")


def test_import_twice_changes_nothing(tmp_path, outputs, said):
    source = record(tmp_path / "away" / "from-elsewhere.jsonl", run_of())
    assert said("import", str(source)) == f"1 run imported.\n\n{RUN_ID} imported\n"
    shown = said("show", "mine", "--json")
    before = {path: path.read_bytes() for path in (outputs / "records").iterdir()}
    again = f"No runs imported, 1 already stored.\n\n{RUN_ID} already stored\n"
    assert said("import", str(source)) == again
    assert said("import", str(source.parent)) == again
    assert {path: path.read_bytes() for path in (outputs / "records").iterdir()} == before
    assert said("show", "mine", "--json") == shown


def test_an_exported_json_is_the_run_again_elsewhere(stored, said, tmp_path):
    document = tmp_path / "run.json"
    said("export", "mine", "--to", str(document))
    other = str(tmp_path / "elsewhere")
    assert said("import", str(document), "--output-dir", other).endswith(f"\n{RUN_ID} imported\n")
    here, there = json.loads(said("show", "mine", "--json")), json.loads(said("show", "--json", "--output-dir", other))
    assert {**here, "record": ""} == {**there, "record": ""}


@pytest.mark.parametrize(
    "words", [["--help"], [], ["--version"], ["list"], ["runs"], ["show"], ["run", "--help"]], ids=str
)
def test_reading_imports_no_heavy_library(stored, words):
    heavy = ("torch", "numpy", "transformers", "pyarrow", "PIL", "tokenizers")
    code = (
        "import sys\nfrom torchstone.cli import main\n"
        f"try:\n    code = main({words!r})\nexcept SystemExit as end:\n    code = end.code\n"
        f"print('LOADED', *({heavy!r} & sys.modules.keys()), file=sys.stderr)\nsys.exit(code)\n"
    ).replace(repr(heavy), repr(set(heavy)))
    answer = started(sys.executable, "-c", code)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.split() == ["LOADED"]


def test_a_reader_that_has_seen_enough_is_no_error(stored):
    words = f"{sys.executable} -m torchstone show mine --full | head -1"
    answer = started("bash", "-c", f"set -o pipefail; {words}")
    assert (answer.returncode, answer.stderr) == (0, "")


def test_a_report_in_every_format_of_every_run_named(stored, said, capfd):
    files = said("report", "mine", "other", "--format", "md,json", "--format", "terminal").split()
    pictures = [file for file in files if file.endswith(".svg")]
    assert all("_pictures/" in file for file in pictures), "each in the folder beside its page"
    assert [file for file in files if not file.endswith(".svg")] == [
        str(stored / "reports" / f"{run}{suffix}")
        for run in (RUN_ID, "20261122-100000-beef") for suffix in (".md", ".json", ".txt")
    ]  # fmt: skip
    page = (stored / "reports" / f"{RUN_ID}.md").read_text()
    assert page.startswith("# mine\n\n**")
    assert "### SYSTEM" in page, "every figure of every case"
    assert said("report").split()[-1] == str(stored / "reports" / "20261122-100000-beef.md"), "the newest, as Markdown"
    (stored / "taken").write_text("")
    for words, why in (
        (("--format", "mdd"), "unknown report format 'mdd'. Did you mean 'md'?"), (("nope",), "no run 'nope'"),
        (("--output", str(stored / "taken")), "cannot write into"),
    ):  # fmt: skip
        assert main(["report", *words]) == 2
        assert why in capfd.readouterr().err

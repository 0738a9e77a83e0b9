"""Results of other tools, through the real command line: checked in place, imported, shown, exported, compared."""

import json
import shutil
from pathlib import Path

import pytest
from build import a_case, a_run

from torchstone.cli import main
from torchstone.core.schema.codec import encode

SAMPLES = Path(__file__).parents[1] / "unit" / "plugins" / "importers" / "samples"


@pytest.fixture
def said(capfd, monkeypatch):
    """Run a command on a wide terminal; return its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_a_file_is_checked_where_it_lies(said, outputs):
    code, out, err = said("check", str(SAMPLES / "optimum_training.json"))
    assert (code, err) == (0, "")
    assert "1 INVALID" in out
    assert "error wrong_rate: train google-bert/bert-base-uncased, batch_size 32" in out
    assert "use total items divided by total time" in " ".join(out.split())
    assert not outputs.exists(), "looking writes nothing"


def test_strict_says_no_with_its_exit_code(said):
    assert said("check", str(SAMPLES / "optimum_training.json"), "--strict")[0] == 1
    assert said("check", str(SAMPLES / "optimum_inference.json"), "--strict")[0] == 1, "one trial is SUSPECT"


def test_equal_findings_of_many_cases_are_told_once(said):
    _, out, _ = said("check", str(SAMPLES / "sweep_summary.txt"))
    assert out.count("the optimizer step is in no") == 1
    assert "train unknown, batch_size 1 and 12 more" in out
    assert "and 2 more: --full" in out
    _, full, _ = said("check", str(SAMPLES / "sweep_summary.txt"), "--full")
    assert "batch_size 4096" in full
    assert "and 2 more: --full" not in full


def test_a_folder_is_checked_as_one_document(said):
    code, out, err = said("check", str(SAMPLES), "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)["runs"]
    assert len(found) == len(list(SAMPLES.iterdir()))
    verdicts = {run["name"]: [case["verdict"] for case in run["cases"]] for run in found}
    assert verdicts["bert_train"] == ["INVALID"]
    assert verdicts["bert_infer"] == ["SUSPECT"]


def test_imported_results_are_runs_like_any_other(said, outputs, tmp_path):
    code, out, err = said("import", str(SAMPLES))
    assert (code, err) == (0, "")
    assert out.count(" imported\n") == len(list(SAMPLES.iterdir()))
    elsewhere = tmp_path / "renamed.json"
    shutil.copy(SAMPLES / "optimum_training.json", elsewhere)
    shutil.copystat(SAMPLES / "optimum_training.json", elsewhere)
    assert "already stored" in said("import", str(elsewhere))[1]
    assert "bert_train" in said("runs")[1]
    shown = said("show", "bert_train")[1]
    assert "measured by optimum-benchmark 0.6.0" in shown
    assert "624.3" in shown
    assert "wrong_rate" in said("check", "bert_train")[1]
    assert said("show", "bert_train", "--full")[0] == 0
    table = tmp_path / "rows.csv"
    assert said("export", "batch_comparison", "--to", str(table))[0] == 0
    assert "latency_per_batch_p50_s" in table.read_text()
    code, out, _ = said("compare", "sweep_summary", "sweep_table", "--full")
    assert code == 0
    assert "train unknown, batch_size 64" in out


def test_what_is_no_result_is_said_in_one_line(said, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    for words in (("check", str(tmp_path)), ("import", str(tmp_path))):
        code, out, err = said(*words)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
    shutil.copy(SAMPLES / "timm_train.csv", tmp_path)
    (tmp_path / "torn.jsonl").write_text("{")
    code, out, err = said("check", str(tmp_path))
    assert (code, "1 SUSPECT" in out) == (2, True)
    assert "torn.jsonl: not a torchstone record; the other files" in err
    (tmp_path / "r.csv").write_text("model,infer_samples_per_sec\n,1,2,3\n")
    code, out, err = said("import", str(tmp_path / "r.csv"))
    assert (code, out) == (2, "")
    assert "r.csv:2: 4 cells under 2 names" in err


def test_a_hostile_file_of_a_load_is_refused_in_one_line(said, tmp_path):
    raw = json.loads((SAMPLES / "vllm_bench.json").read_text())
    path = tmp_path / "vllm.json"
    for hostile in ({"duration": "long"}, {"completed": None}, {"itls": "[" * 10}):
        path.write_text(json.dumps({**raw, "latencies": None, **hostile}))
        code, _, err = said("import", str(path))
        assert (code, err.count("\n")) == ((2, 1) if "itls" not in hostile else (0, 0))
    deep = json.dumps(raw).replace('"ttfts": [', '"ttfts": ' + "[" * 100_000)
    for text in (deep, json.dumps(raw)[:-40], "\n".join([json.dumps(raw), "{}"])):
        path.write_text(text)
        code, out, err = said("import", str(path))
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_what_was_never_measured_is_not_believed(said, tmp_path):
    run = a_run(cases=[a_case(), a_case({"batch_size": 2})])
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"\n".join([encode(run.head), *map(encode, run.trials), b""]))
    code, out, _ = said("check", str(part), "--strict")
    assert code == 1
    assert "1 INVALID, 1 VALID" in out
    assert "no successful trial" in out
    part.write_bytes(encode(a_run([], cases=[]).head) + b"\n")
    assert said("check", str(part), "--strict")[0] == 1, "no case is no answer"
    assert said("check", str(part))[0] == 0


def test_a_strangers_file_cannot_steer_the_terminal(said, tmp_path):
    (tmp_path / "\x1b[2Jbad.csv").write_text("model,infer_samples_per_sec\n,1,2,3\n")
    code, _, err = said("check", str(tmp_path))
    assert code == 2
    assert "bad.csv:2: 4 cells under 2 names" in err
    assert "\x1b" not in err

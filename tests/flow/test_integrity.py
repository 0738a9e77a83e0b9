"""Reports and releases of real runs, through the real CLI: released, checked, verified, measured again."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from reported import edited_record
from warm_templates import TORCHSTONE

from torchstone.cli import main
from torchstone.report.rendering import formats

pytestmark = pytest.mark.xdist_group("integrity")  # one measurement serves all its tests

RUN = ("run", "--task", "train", "--model", "builtin:mlp", "--axis", "batch_size=4,16", "--axis", "threads=1",
       "--trials", "3", "--iterations", "20", "--warmup", "5", "--no-phases", "--quiet")  # fmt: skip
NET = """
import torch

def load():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    return net, {"input": torch.zeros(8, 64)}, lambda module, batch: module(batch["input"]).square().mean()
"""


def torchstone(folder: Path, *words: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [*TORCHSTONE, *words], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    return answer


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """A folder with a run, in `outputs`, and its release, in `results`."""
    folder = tmp_path_factory.mktemp("measured")
    store: Any = {"TORCHSTONE_OUTPUT": str(folder / "outputs"), "TORCHSTONE_CACHE": str(folder / "cache")}
    torchstone(folder, *RUN, "--name", "small", **store)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.items():
            patch.setenv(name, value)
        assert main(["release", "small", "--output", str(folder / "results"), "--author", "A. Person"]) == 0
    return folder


def test_a_release_passes_both_checks(measured, capfd):
    assert main(["verify", str(measured / "results")]) == 0
    said = capfd.readouterr().out
    assert "every figure and verdict follows from its record (1 run, 2 cases, " in " ".join(said.split())
    assert main(["manifest", str(measured / "results"), "--verify"]) == 0
    if shutil.which("sha256sum") is not None:
        words = ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"]
        assert subprocess.run(words, cwd=measured / "results", check=False).returncode == 0


def test_one_flipped_byte_fails_both(measured, tmp_path, capfd):
    copy = shutil.copytree(measured / "results", tmp_path / "results")
    (record,) = (copy / "records").iterdir()
    data = bytearray(record.read_bytes())
    data[data.index(b'"step_time_s"') - 20] ^= 1
    record.write_bytes(data)
    assert main(["verify", str(copy)]) == 1
    assert "has changed: its SHA-256 is not the one" in " ".join(capfd.readouterr().out.split())
    assert main(["manifest", str(copy), "--verify"]) == 1
    assert f"torchstone: 'records/{record.name}' has changed" in capfd.readouterr().err
    if shutil.which("sha256sum") is not None:
        words = ["sha256sum", "--quiet", "-c", "SHA256SUMS"]
        assert subprocess.run(words, cwd=copy, check=False, capture_output=True).returncode == 1


def test_a_second_release_has_the_same_bytes(measured, capfd):
    store = ["--output-dir", str(measured / "outputs")]
    for name in ("second", "second.zip"):
        words = ["release", "small", "--output", str(measured / name), "--author", "A. Person", *store]
        assert main(words) == 0
    sums = [(measured / name / "SHA256SUMS").read_bytes() for name in ("results", "second")]
    assert sums[0] == sums[1]
    with zipfile.ZipFile(measured / "second.zip") as packed:
        assert packed.read("second/SHA256SUMS") == sums[0]
    capfd.readouterr()
    assert main(["verify", str(measured / "second.zip"), "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["files"]
    assert (found["faults"], found["cases"]) == ([], 2)


def test_a_release_in_korean_is_verified_in_korean(measured, tmp_path, capfd):
    made = tmp_path / "results"
    words = ["release", "small", "--output", str(made), "--author", "A. Person", "--lang", "ko"]
    assert main([*words, "--output-dir", str(measured / "outputs")]) == 0
    (page,) = (made / "reports").glob("*.md")
    for text in (made / "README.md", page):
        assert re.search("[가-힣]{2}", text.read_text(encoding="utf-8")), text
    for suffix in (".json", ".csv"):  # which programs read
        assert (page.with_suffix(suffix)).read_bytes() == (
            measured / "results" / "reports" / page.with_suffix(suffix).name
        ).read_bytes()
    assert main(["verify", str(made)]) == 0, capfd.readouterr().out
    assert main(["manifest", str(made), "--verify"]) == 0
    page.write_text(page.read_text(encoding="utf-8").replace("가장 빠", "가장 느"), encoding="utf-8")
    (claims,) = (made / "claims").iterdir()
    capfd.readouterr()
    assert main(["verify", str(made)]) == 1
    assert re.search(rf"{page.name}: line \d+: “[^”]*가장 느", " ".join(capfd.readouterr().out.split()))
    claims.write_text(claims.read_text().replace('"language":"ko"', '"language":"xx"'))
    assert main(["verify", str(made)]) == 1
    assert "there is no report in the language xx" in " ".join(capfd.readouterr().out.split())


@pytest.mark.skipif("html" not in formats(), reason="there are no HTML reports")
def test_a_page_is_verified_by_what_it_carries(measured, tmp_path, capfd):
    words = [
        "report",
        "small",
        "--format",
        "html",
        "--output",
        str(tmp_path),
        "--output-dir",
        str(measured / "outputs"),
    ]
    assert main(words) == 0
    (page,) = tmp_path.glob("*.html")
    capfd.readouterr()
    assert main(["verify", str(page)]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "every figure and verdict follows from its record (1 run, 2 cases, " in shown
    assert "were not compared" not in shown
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r'(<div class="answer">\s*<p[^>]*>)', r"\1By far: ", text), encoding="utf-8")
    assert main(["verify", str(page)]) == 1
    assert "text “By far: " in " ".join(capfd.readouterr().out.split())


def test_a_release_goes_nowhere_where_something_is(measured, refused, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    store = ("--output-dir", str(measured / "outputs"))
    assert "is not an empty folder" in refused("release", "small", "--output", str(tmp_path / "full"), *store)
    assert "is not an empty folder" in refused("release", "nosuch", "--output", str(tmp_path / "full"), *store)


def test_what_is_no_report_is_refused(measured, refused, tmp_path):
    (tmp_path / "page.html").write_text("<p>hello</p>")
    assert "page.html carries no record" in refused("verify", str(tmp_path / "page.html"))
    assert "cannot read " in refused("verify", str(tmp_path / "nowhere.html"))
    (record,) = (measured / "results" / "records").iterdir()
    assert "is no report" in refused("verify", str(record))
    assert "has no SHA256SUMS; `torchstone manifest" in refused("manifest", str(tmp_path), "--verify")
    assert "unknown answer of --fail-on" in refused("reproduce", str(measured / "results"), "--fail-on", "equivalent")


def reproduced(folder: Path, *words: str, **environment: str) -> Any:
    store: Any = {"TORCHSTONE_OUTPUT": "again", "TORCHSTONE_CACHE": str(folder / "cache"), **environment}
    return json.loads(torchstone(folder, "reproduce", *words, "--quiet", "--json", **store).stdout)


def test_a_release_is_measured_again(measured):
    found = reproduced(measured, "results", "--margin", "60%")
    assert found["answer"] in ("equivalent", "inconclusive", "different")  # how fast it was, is tested below, for long
    assert found["recorded"] != found["run_id"]
    assert (measured / "again" / "records" / f"{found['run_id']}.jsonl").is_file()
    assert len(found["comparison"]["comparisons"]) > 2
    shown = torchstone(measured, "reproduce", "results.zip", "--quiet", code=2).stderr
    assert shown.startswith("torchstone: no run 'results.zip'")


def test_own_code_has_to_be_named(tmp_path, monkeypatch, refused):
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    (there / "net.py").write_text(NET)
    own = ("run", "--task", "train", "--model", f"py:{there / 'net.py'}:load", "--trials", "2", "--iterations", "5",
           "--warmup", "1", "--no-phases", "--quiet")  # fmt: skip
    torchstone(there, *own)
    assert main(["release", "latest", "--output", str(here / "results")]) == 0
    (there / "net.py").rename(here / "net.py")
    monkeypatch.chdir(here)
    said = refused("reproduce", "results", "--quiet", lines=5)
    assert "measured code that its record only names: py:" in said
    assert "--code FOLDER" in said
    shown = torchstone(here, "reproduce", "results", "--quiet", "--code", ".").stdout
    assert shown.split(":")[0] in ("Equivalent", "Inconclusive") or shown.startswith("Different from ")
    (here / "net.py").write_text(NET.replace("64, 64", "64, 32", 1).replace("Linear(64, 64)", "Linear(32, 64)"))
    said = refused("reproduce", "results", "--quiet", "--code", ".")
    assert "net.py:load: its file has changed; --force measures nevertheless" in said


AB = ("ab", "--task", "train", "--model", "builtin:mlp", "--a", "batch_size=8", "--b", "batch_size=64",
      "--axis", "threads=1", "--within", "25s", "--quiet")  # fmt: skip
TUNE = ("tune", "--task", "train", "--model", "builtin:mlp", "--axis", "batch_size=4,16", "--axis", "precision=fp32",
        "--axis", "threads=1", "--budget", "200ms", "--warmup-budget", "100ms", "--trials", "2", "--probes", "2",
        "--quiet")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "key", "forged", "said"),
    [
        (AB, ("comparison", "margin"), 0.5, "comparison: its margin is 0.5, the rules of the run say 0.02"),
        (TUNE, ("settings",), {"batch_size": 1}, "answer: setting batch_size=1, what was measured had "),
    ],
    ids=["ab", "tune"],
)
def test_the_answers_of_ab_and_tune_are_computed_again(tmp_path, capfd, words, key, forged, said):
    torchstone(tmp_path, *words)
    results = tmp_path / "results"
    assert main(["release", "latest", "--output", str(results)]) == 0
    assert main(["verify", str(results)]) == 0
    assert "every figure and verdict follows from its record (1 run, " in " ".join(capfd.readouterr().out.split())

    def forge(lines: list[Any]) -> None:
        answer = next(one for one in lines if one["record"] == "answer")["answer"]
        for inner in key[:-1]:
            answer = answer[inner]
        answer[key[-1]] = forged

    (record,) = (results / "records").iterdir()
    record.write_bytes(edited_record(record.read_bytes(), forge))
    assert main(["manifest", str(results)]) == 0
    capfd.readouterr()
    assert main(["verify", str(results), "--json"]) == 1
    (found,) = json.loads(capfd.readouterr().out)["files"]
    assert any(said in fault for fault in found["faults"]), found["faults"]


BIG = ("run", "--task", "train", "--model", "builtin:cnn", "--axis", "batch_size=64", "--axis", "image_size=64",
       "--trials", "8", "--iterations", "10", "--warmup", "3", "--no-phases", "--quiet")  # fmt: skip


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has no half")
def test_the_same_machine_is_equivalent_and_half_the_threads_are_not(tmp_path):
    store: Any = {"TORCHSTONE_OUTPUT": "outputs", "TORCHSTONE_CACHE": str(tmp_path / "cache")}
    cores = os.cpu_count() or 2
    torchstone(tmp_path, *BIG, **store, OMP_NUM_THREADS=str(cores))
    torchstone(tmp_path, "release", "latest", "--output", "results", **store)
    same = reproduced(tmp_path, "results", OMP_NUM_THREADS=str(cores), TORCHSTONE_OUTPUT="same")
    assert same["answer"] == "equivalent", same
    half = reproduced(tmp_path, "results", OMP_NUM_THREADS=str(cores // 2), TORCHSTONE_OUTPUT="half")
    assert half["answer"] == "different"
    differing = [one["what"] for found in half["comparison"]["comparisons"] for one in found["differing"]]
    assert "OMP_NUM_THREADS" in differing

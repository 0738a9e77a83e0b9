"""A sweep through the real CLI: what is left out, what comes first, the table with its blocks, and the charts."""

import json
import re
import subprocess

import pytest
from warm_templates import TORCHSTONE

pytestmark = pytest.mark.xdist_group("sweep")  # one measurement serves all its tests

WORDS = (
    "--task", "train", "--model", "builtin:mlp", "--data", "digits", "--axis", "image_size=8", "--batch-sizes", "4",
    "8", "16", "--num-workers", "0", "--axis", "precision=fp32,bf16", "--exclude", "batch_size>=8,precision=bf16",
    "--first", "batch_size=16", "--steps", "20", "--warmup", "1", "--trials", "3", "--disturbed", "keep",
)  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Run the sweep once; return its folder and what it printed."""
    folder = tmp_path_factory.mktemp("sweep")
    return folder, torchstone(folder, "run", *WORDS).stdout


def torchstone(folder, *words: str) -> subprocess.CompletedProcess[str]:
    command = (*TORCHSTONE, *words, "--output-dir", "outputs")
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return answer


def test_what_was_excluded_is_not_there_and_what_is_first_was_taken_first(swept):
    folder, _ = swept
    run = json.loads(torchstone(folder, "show", "--json").stdout)
    points = [(c["configuration"]["batch_size"], c["configuration"]["precision"]) for c in run["cases"]]
    assert sorted(points) == [(4, "bf16"), (4, "fp32"), (8, "fp32"), (16, "fp32")]
    assert {c["configuration"]["feed"] for c in run["cases"]} == {"loader"}, "who asks for workers asks for a loader"
    assert list(run["cases"][0]["configuration"])[:4] == ["image_size", "batch_size", "num_workers", "precision"]
    order = {t["order"]: c["configuration"]["batch_size"] for c in run["cases"] for t in c["trials"]}
    assert [order[n] for n in (0, 4, 8)] == [16, 16, 16]
    assert {c["estimates"]["steps"]["value"] for c in run["cases"]} == {20.0}


def test_s2_23_to_26_the_table_leads_to_the_answer(swept):
    _, printed = swept
    header = printed[: printed.index("───")].replace("\n", " ")
    assert {"batch", "precision", "data", "step", "throughput", "±", "status"} <= set(header.split())
    if not printed.startswith("Fastest: batch_size "):
        assert printed.startswith(("Which is fastest is not known", "Only batch_size ")), "a busy machine"
        return
    assert re.search(r"\d\*", printed), "the best of a column"


def test_full_shows_the_same_and_more(swept):
    folder, printed = swept
    full = torchstone(folder, "show", "--full").stdout
    assert full.split("\n\n")[0] == printed.split("\n\n")[0]
    assert re.search(r"^note: ", full, re.MULTILINE)
    if printed.startswith("Fastest: batch_size "):
        for block in ("Highest throughput: ", "Recommended for training: "):
            assert re.search(rf"^  {block}batch_size \d+, precision (fp32|bf16), num_workers 0$", full, re.MULTILINE)
    assert "[PHASES]" in full


def test_s4_28_charts_of_the_batch_profile(swept):
    folder, _ = swept
    path = torchstone(folder, "export", "--format", "svg").stdout.strip()
    assert path.startswith("outputs/analysis/batch_profile_charts/")
    assert (folder / path).read_text(encoding="utf-8").startswith("<svg")

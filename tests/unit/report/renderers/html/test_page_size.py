"""What a page takes: whoever makes it larger is to see by how much, and to write the new size here."""

import re

import pytest
from learning import falling, of_losses
from reported import looked_at
from stored import store

from torchstone.cli import main
from torchstone.report.verification import without_carried

POINTS = [
    {"batch_size": size, "precision": precision, "num_workers": workers}
    for workers in range(6) for precision in ("fp32", "bf16") for size in (1, 2, 4, 8)
]  # fmt: skip
WORDS_BYTES, DRAWN_BYTES = 124_440, 60_958
_DRAWN = re.compile(rb"<svg\b.*?</svg>", re.DOTALL)
MORE = 1.05  # of another version of what draws, or of the machine's fonts


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("vl_convert")
    trainings = [(point, falling(60, seed=n)) for n, point in enumerate(POINTS)]
    run = looked_at(of_losses(trainings, step_s=[0.01 + 1e-3 * float(point["batch_size"]) for point in POINTS]))
    folder = tmp_path_factory.mktemp("sweep")
    store(folder, [run])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCHSTONE_CACHE", str(folder / "cache"))  # without this machine's peaks
        assert main(["report", run.head.run_id, "--format", "html", "--no-record", "--output-dir", str(folder)]) == 0
    return without_carried((folder / "reports" / f"{run.head.run_id}.html").read_bytes())


def test_the_words_and_tables_of_a_sweep_of_48_cases(page):
    assert WORDS_BYTES / MORE <= len(_DRAWN.sub(b"", page)) <= MORE * WORDS_BYTES


def test_its_drawings(page):
    drawn = len(page) - len(_DRAWN.sub(b"", page))
    assert page.count(b"<svg ") == 9
    assert DRAWN_BYTES / MORE <= drawn <= MORE * DRAWN_BYTES

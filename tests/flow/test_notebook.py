"""The notebook of examples/ is executed as Jupyter would, but for the cell that installs."""

import re
import shutil
import zipfile
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks are executed with nbclient, of the extra dev")
nbclient = pytest.importorskip("nbclient", reason="notebooks are executed with nbclient, of the extra dev")
pytest.importorskip("ipykernel", reason="notebooks are executed with ipykernel, of the extra dev")
pytest.importorskip("vl_convert", reason="its pictures are drawn with vl-convert-python, of the extra charts")

pytestmark = pytest.mark.xdist_group("notebook")  # one execution serves its tests

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The folder it ran in, and its cells by their ids, with what they show."""
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copy(NOTEBOOK, folder)
    notebook = nbformat.read(folder / NOTEBOOK.name, as_version=4)
    nbformat.validate(notebook)
    notebook.cells = [cell for cell in notebook.cells if "install" not in cell.metadata.get("tags", ())]
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return folder, {cell.id: cell for cell in notebook.cells}


def shown(cell, media):
    return [output.data[media] for output in cell.outputs if media in output.get("data", {})]


def test_it_shows_figures_pictures_and_causes(executed):
    _, cells = executed
    (text,) = shown(cells["one"], "text/plain")
    assert "throughput" in text
    (run,), (swept,) = shown(cells["one"], "text/html"), shown(cells["many"], "text/html")
    assert run.startswith('<div class="torchstone-result" lang="en">')
    assert re.search(r'<div class="answer">\s*<p>[^<]*samples/s', run), "the answer comes first"
    assert swept.count("<svg") == 4, "throughput, times and shares of the phases, memory"
    (table,) = shown(cells["frame"], "text/html")
    assert table.count("<tr") >= 4, "a head, and a row a batch size on the CPU"
    assert len(shown(cells["plots"], "image/png")) == 3
    (report,) = shown(cells["why"], "text/markdown")
    assert report.startswith("# ")


def test_its_results_are_one_file_to_download(executed):
    folder, cells = executed
    assert "torchstone_results.zip" in shown(cells["download"], "text/html")[0]
    with zipfile.ZipFile(folder / "torchstone_results.zip") as archive:
        names = archive.namelist()
    assert any(name.endswith(".jsonl") for name in names), "the records"
    assert any(name.endswith("throughput_vs_batch_size.png") for name in names)
    assert any(name.endswith("performance_report.md") for name in names)

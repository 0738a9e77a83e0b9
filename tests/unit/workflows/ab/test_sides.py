"""Sides as asked for: each revision has its own code, and both have the data that lies here."""

from pathlib import Path

import pytest

from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.core.schema.request import WorkloadRequest
from torchstone.workflows.ab.sides import SideRequest, sketched


def side(model: str, data: str | None = None, folder: Path | None = None) -> SideRequest:
    request = RunRequest(name="x", workloads=(WorkloadRequest("infer", model, data),))
    return SideRequest("A", request, folder)


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text("def load(): ...\n")
    (tmp_path / "rows.tsv").write_text("".join(f"sentence number {n}\t{n % 2}\n" for n in range(40)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_is_that_of_the_revision_and_never_one_file_for_both(here, tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    (tree / "net.py").write_text("def load(): pass\n")
    assert sketched(side("py:net.py:load", folder=tree)).sketch.workload.model == f"py:{tree / 'net.py'}:load"
    assert sketched(side("py:net.py:load")).sketch.workload.model == "py:net.py:load"
    with pytest.raises(UsageError, match="both revisions would load this same file"):
        sketched(side(f"py:{here / 'net.py'}:load", folder=tree))


def test_data_are_read_where_they_were_looked_at(here, tmp_path_factory):
    pytest.importorskip("tokenizers")
    tree = tmp_path_factory.mktemp("tree")
    workload = sketched(side("builtin:text-small", "tsv:rows.tsv", tree)).sketch.workload
    assert workload.data == f"tsv:{here / 'rows.tsv'}"
    assert workload.canonical() == sketched(side("builtin:text-small", "tsv:rows.tsv")).sketch.workload.canonical()
    assert sketched(side("builtin:mlp", folder=tree)).sketch.workload.data == "synthetic"


def test_the_digest_of_code_is_that_of_the_side_or_none(here, tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    (tree / "net.py").write_text("def load(): pass\n")
    own, other = (sketched(side("py:net.py:load", folder=one)).sketch.code_sha256 for one in (here, tree))
    assert None not in (own, other)
    assert own != other
    assert sketched(side("py:net:load", folder=here)).sketch.code_sha256 == own
    assert sketched(side("py:net:load", folder=tree)).sketch.code_sha256 is None, "the module was found here"

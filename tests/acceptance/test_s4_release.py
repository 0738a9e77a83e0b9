"""What the fourth document's user publishes: a manifest of the results, and a release of them."""

import shutil
import subprocess

import pytest
from acceptance.test_s4_project import typed

RUN = "torchstone run cnn --axis batch_size=4 --axis threads=1 --trials 2 --iterations 5 --warmup 2 --no-phases --quiet"


@pytest.fixture
def results(desk):
    """The desk, with a run in its folder outputs."""
    desk.type(RUN)
    return desk


def test_s4_21_and_22_a_manifest_is_written_and_checked(results):
    assert results.type(typed("manifest")).out.startswith("outputs/SHA256SUMS: ")
    assert results.type(typed("verify-manifest")).out.endswith(" files unchanged\n")
    folder = shutil.copytree(results.folder / "outputs", results.folder / "changed")
    (record,) = (folder / "records").glob("*.jsonl")
    record.write_bytes(record.read_bytes() + b"\n")
    said = results.type("torchstone manifest changed --verify", code=1).err
    assert f"'records/{record.name}' has changed" in said


def test_s4_32_what_everybody_has_checks_it_too(results):
    results.type(typed("manifest"))
    checks = shutil.which("sha256sum")
    if checks is None:
        pytest.skip("there is no sha256sum here")
    done = subprocess.run([checks, "-c", "SHA256SUMS"], cwd=results.folder / "outputs", capture_output=True, check=True)
    assert done.stdout.count(b": OK") == len((results.folder / "outputs/SHA256SUMS").read_bytes().splitlines())


def test_s4_23_and_33_a_release_has_reports_records_and_a_manifest(results):
    assert results.type(typed("release")).out.startswith("release: ")
    folder = results.folder / "release"
    names = {path.relative_to(folder).as_posix().partition("/")[0] for path in folder.rglob("*")}
    assert {"reports", "records", "claims", "environment", "README.md", "CITATION.cff", "SHA256SUMS"} <= names
    assert "every figure and verdict follows from its record" in " ".join(
        results.type("torchstone verify release").out.split()
    )

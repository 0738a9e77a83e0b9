"""Records that are torn, foreign, from the future or hostile: one line, quickly, and nothing written."""

import json
import sys
import time
from pathlib import Path

import pytest
from build import a_run

from torchstone.cli import main
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import SCHEMA


def record(path: Path, change=lambda head: head) -> Path:
    run = a_run()
    head = encode(run.head)
    path.write_bytes(b"\n".join([change(head), *map(encode, run.trials), encode(run.end), b""]))
    return path


def test_a_torn_last_line_costs_only_itself(capfd, tmp_path, outputs):
    whole = record(tmp_path / "whole.jsonl").read_bytes()
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(whole[:-30])
    assert main(["show", str(torn), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["status"] == "cut off"
    assert len(found["cases"][0]["trials"]) == 3
    assert not outputs.exists()


def zeros(path):
    with path.open("wb") as file:
        file.truncate(2 * 2**30)


BROKEN = {
    "a head cut in half": (lambda path: path.write_bytes(encode(a_run().head)[:100]), "its head line is cut off"),
    "a foreign schema": (lambda path: path.write_text('{"schema": "http://x/y", "items": []}\n'), "not a torchstone"),
    "another program's lines": (lambda path: path.write_text('{"a": 1}\n{"b": 2}\n'), "not a torchstone"),
    "a version from the future": (
        lambda path: record(path, lambda h: h.replace(b'"schema":%d' % SCHEMA, b'"schema":99')),
        "of schema 99, this torchstone reads schema 1: use the torchstone that wrote it, or a newer one",
    ),
    "a torn line in the middle": (
        lambda path: path.write_bytes(record(path).read_bytes().replace(b"\n", b"{\n", 2)),
        "broken.jsonl:",
    ),
    "2 GB of zeros": (zeros, "exceeds the limit of a record"),
    "nothing": (lambda path: path.write_bytes(b""), "empty"),
}


@pytest.mark.parametrize("ending", ["jsonl", "json"])
@pytest.mark.parametrize("what", BROKEN)
def test_a_record_that_is_none(refused, tmp_path, what, ending):
    make, said = BROKEN[what]
    path = tmp_path / f"broken.{ending}"
    make(path)
    for command in ("show", "import", "export"):
        began = time.monotonic()
        assert said.removesuffix("jsonl:") in refused(command, str(path))
        assert time.monotonic() - began < 2.0


def test_names_of_stored_runs_are_suggested_and_files_are_not_overwritten(refused, capfd, tmp_path):
    assert main(["import", str(record(tmp_path / "one.jsonl"))]) == 0
    assert main(["show", "latest"]) == 0
    capfd.readouterr()
    assert "Did you mean 'test'?" in refused("show", "tset")
    target = tmp_path / "there.csv"
    target.write_text("mine")
    assert "--force overwrites it" in refused("export", "latest", "--to", str(target))
    assert target.read_text() == "mine"
    assert "there is no folder" in refused("export", "latest", "--to", str(tmp_path / "no" / "x.csv"))
    if sys.platform == "linux":
        assert "cannot write /proc/x.csv" in refused("export", "latest", "--to", "/proc/x.csv")

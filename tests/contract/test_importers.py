"""Every importer keeps the Protocol: it knows its own files and no others, and its runs can be stored and shown."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from build import a_run

from torchstone.analysis.rows import case_rows, sample_rows, trial_rows
from torchstone.analysis.summary import summarize
from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.run import IMPORTED, Head
from torchstone.core.schema.trial import Status, Trial
from torchstone.plugins import registry
from torchstone.plugins.checking import look
from torchstone.plugins.protocols import Importer
from torchstone.storage.foreign import read_foreign, recognised
from torchstone.storage.importing import import_path
from torchstone.storage.query import find
from torchstone.storage.record_reader import checked_id
from torchstone.storage.run_document import write_document

IMPORTERS = registry.names("importers")
SAMPLES = sorted((Path(__file__).parents[1] / "unit" / "plugins" / "importers" / "samples").iterdir())
STRANGE = {
    "empty": b"", "not json": b"\x80\x04\x95pickle", "a list": b"[1, 2]", "deep": b"[" * 100_000,
    "other json": b'{"benchmarks": [], "system_info": {}}', "a header": b"model,infer_samples_per_sec\n",
    "csv": b"a,b\n1,2\n", "no utf-8": b"model,infer_samples_per_sec\n\xff\xfe,1\n",
}  # fmt: skip


@pytest.mark.parametrize("name", IMPORTERS)
def test_describes_itself_in_one_line(name: str) -> None:
    importer: Importer = registry.load("importers", name)
    assert importer.describes
    assert "\n" not in importer.describes


@pytest.mark.parametrize("name", IMPORTERS)
def test_there_is_a_sample_that_it_alone_knows(name: str) -> None:
    mine = [path for path in SAMPLES if recognised(path) == name]
    assert mine
    for path in mine:
        beginning = path.read_bytes()[: 64 * 1024]
        knowing = [other for other in IMPORTERS if registry.load("importers", other).recognises(path, beginning)]
        assert knowing == [name]


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_a_run_of_a_sample_can_be_stored_and_read(path: Path, tmp_path: Path) -> None:
    tool = recognised(path)
    assert tool is not None
    for run in read_foreign(tool, path):
        checked_id(run.head.run_id)
        assert run.head.procedure.isolation == IMPORTED
        assert run.trials
        assert all(trial.facts.imported_from for trial in run.trials)
        head: Head = decode(encode(run.head), Head)
        trials: list[Trial] = [decode(encode(trial), Trial) for trial in run.trials]
        assert (head, trials) == (run.head, list(run.trials))
        assert {t.case_id for t in run.trials} == {c.case_id for c in run.head.plan.cases}
        good = [trial for trial in run.trials if trial.outcome.status == Status.OK]
        assert all(figures(trial).values or not any(trial.facts.claimed.values()) for trial in good)
        looked = msgspec.structs.replace(run, findings=tuple(look(run)))
        assert not [f for f in looked.findings if "failed:" in f.message], "a check that raised"
        assert case_rows(looked)
        assert trial_rows(looked)
        sample_rows(looked)
        write_document(looked, tmp_path)


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_the_same_file_is_the_same_run(path: Path, tmp_path: Path) -> None:
    tool = recognised(path)
    assert tool is not None
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    mine, its = read_foreign(tool, path), read_foreign(tool, copy)
    assert [r.head.source.sha256 for r in mine if r.head.source] == [r.head.source.sha256 for r in its if r.head.source]


@pytest.mark.parametrize("name", IMPORTERS)
def test_a_strange_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    importer: Importer = registry.load("importers", name)
    for what, suffix in itertools.product(STRANGE, (".json", ".jsonl", ".csv", ".txt")):
        path = tmp_path / f"strange{suffix}"
        path.write_bytes(STRANGE[what])
        importer.recognises(path, STRANGE[what])
        with pytest.raises(UsageError, match="strange") as refused:
            read_foreign(name, path)
        assert "\n" not in str(refused.value), what


@pytest.mark.parametrize("name", IMPORTERS)
def test_our_own_files_are_nobodys(name: str, tmp_path: Path) -> None:
    document = write_document(a_run(), tmp_path)
    assert recognised(document) is None
    assert not registry.load("importers", name).recognises(document, document.read_bytes()[: 64 * 1024])


WEIRD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    float("nan"),
    float("inf"),
    10**40,
    "",
    "x\x1b[31m",
    "\ud800",
    [],
    [[]],
    {},
    {"a": [1]},
)


def spoilt(value: Any, rng: random.Random) -> Any:
    """The same value with one part replaced by something odd."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        return {**value, key: spoilt(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], spoilt(value[place], rng), *value[place + 1 :]]
    return rng.choice(WEIRD)


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.suffix == ".json"], ids=lambda path: path.name)
def test_a_spoilt_file_is_refused_or_survives_the_store(path: Path, tmp_path: Path) -> None:
    tool, rng, whole = recognised(path), random.Random(5), json.loads(path.read_text())
    assert tool is not None
    for number in range(25):
        odd = tmp_path / f"{number}.json"
        odd.write_text(json.dumps(spoilt(spoilt(whole, rng), rng)))
        try:
            runs = read_foreign(tool, odd)
        except UsageError:
            continue
        for run in runs:
            looked = msgspec.structs.replace(run, findings=tuple(look(run)))
            assert not [f for f in looked.findings if "failed:" in f.message], "a check that raised"
            imported = import_path(write_document(looked, tmp_path), tmp_path / f"out{number}")
            assert imported == [(run.head.run_id, True)]
            assert summarize(find(tmp_path / f"out{number}", run.head.run_id)).cases


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.suffix != ".json"], ids=lambda path: path.name)
def test_spoilt_cells_are_refused_or_looked_at(path: Path, tmp_path: Path) -> None:
    tool, rng, text = recognised(path), random.Random(7), path.read_text()
    assert tool is not None
    for number in range(25):
        words = text.split(",")
        for _ in range(3):
            words[rng.randrange(len(words))] = rng.choice(("", "nan", "-1", "1e999", "x", "9" * 400, "\x00", "0"))
        odd = tmp_path / f"{number}{path.suffix}"
        odd.write_text(",".join(words))
        try:
            runs = read_foreign(tool, odd)
        except UsageError:
            continue
        for run in runs:
            assert not [f for f in look(run) if "failed:" in f.message], "a check that raised"
            encode(run.head)

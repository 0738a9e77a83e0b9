"""One record of every schema there ever was stays readable. Never edit these files: add one for each new schema."""

import math
from pathlib import Path

import pytest

from torchstone.core.schema.run import SCHEMA
from torchstone.core.schema.trial import Status
from torchstone.storage.query import entry_of, read_run

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_records_of_every_schema_are_read(schema):
    run = read_run(GOLDEN / f"schema_{schema}.jsonl")
    assert run.head.schema == schema
    assert run.end is not None
    assert run.head.procedure.settings is None, "nobody chose what the device liked, when this was written"
    assert [t.outcome.status for t in run.trials] == [Status.OK, Status.OK, Status.OUT_OF_MEMORY]
    assert math.isnan(run.trials[1].values("loss")[-1])
    assert run.findings[0].check == "nan_loss"
    entry = entry_of(run, GOLDEN)
    assert entry.trials[0].figures.values["throughput"] == pytest.approx(16 / 0.0107)
    assert entry.trials[0].case_id == run.head.plan.cases[0].case_id == "a4b8d4c50555"
    if schema >= 3:
        assert run.head.ab is not None
        assert run.comparison is not None
        assert entry.comparison == run.comparison
        assert run.comparison.verdict == "worse"
    if schema >= 4:
        assert run.head.procedure.in_rounds
        assert run.head.usual is not None
        assert run.comparison is not None
        assert run.comparison.with_other_threads is not None
        assert run.end.why == "narrow"

"""What a run leaves: its summary is made once, and is the one that the index gives afterwards."""

from stored import a_stored_run, case, machine, store

from torchstone.analysis.summary import summarize
from torchstone.storage.query import find
from torchstone.workflows.run import planned_run


def test_the_summary_is_the_indexs_and_is_made_once(tmp_path, monkeypatch):
    small, large = case(batch_size=8), case(batch_size=16)
    run = a_stored_run(1, [(small, 100.0), (large, 150.0)], machine(), failed=[large.case_id])
    store(tmp_path, [run])
    made = []

    def once(entry):
        made.append(entry)
        return summarize(entry)

    monkeypatch.setattr(planned_run, "summarize", once)
    found = planned_run.published(run, tmp_path)
    assert found.summary == summarize(find(tmp_path, run.head.run_id))
    assert len(made) == 1
    assert found.summary.record == str(tmp_path / "records" / f"{run.head.run_id}.jsonl")
    assert found.table.read_text(encoding="utf-8").count(run.head.run_id) == 2

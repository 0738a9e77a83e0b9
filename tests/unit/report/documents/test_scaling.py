"""The part of a run's Document on its ranks."""

import msgspec
from build import a_sweep, facts_of
from reported import stored_summary

from torchstone.core.schema.case import Placement
from torchstone.core.schema.facts import merged
from torchstone.report.document import Table, Text
from torchstone.report.documents.run import scaling_parts

FACTS = {
    "ranks": 2, "items_per_s_by_rank": (400.0, 400.0), "threads_by_rank": (1, 1), "cores_by_rank": ("0", "1"),
    "reshard_after_forward": ("no", "yes"), "fsdp_units": 2,
}  # fmt: skip


def section(folder, spread=0.01, **of_fsdp2):
    common = {"batch_size": 8, "precision": "fp32"}
    points = [
        ({"world_size": 1, "strategy": "none", **common}, 0.01), ({"world_size": 2, "strategy": "ddp", **common}, 0.01),
        ({"world_size": 2, "strategy": "fsdp2", **common, **of_fsdp2}, 0.01),
    ]  # fmt: skip
    run = a_sweep(points, spread=spread)
    trials = tuple(msgspec.structs.replace(t, facts=merged(t.facts, facts_of(FACTS))) for t in run.trials)
    cases = tuple(msgspec.structs.replace(c, placement=Placement("cpu")) for c in run.head.plan.cases)
    ids = {old.case_id: new.case_id for old, new in zip(run.head.plan.cases, cases, strict=True)}
    trials = tuple(msgspec.structs.replace(t, case_id=ids[t.case_id]) for t in trials)
    plan = msgspec.structs.replace(run.head.plan, cases=cases)
    run = msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, plan=plan), trials=trials)
    return list(scaling_parts(stored_summary(folder, run)))


def test_ranks_stand_in_a_table_with_their_efficiency(tmp_path):
    (found,) = section(tmp_path)
    (table,) = (part for part in found.parts if isinstance(part, Table))
    columns = {column.title: column.cells for column in table.columns}
    assert columns["ranks"] == ("1", "2", "2")
    assert columns["strategy"] == ("none", "ddp", "fsdp2")
    assert columns["effective batch"] == ("8", "16", "16")
    assert columns["weak efficiency"][0] == "–"
    assert "%" in columns["weak efficiency"][1]
    texts = [part.text for part in found.parts if isinstance(part, Text)]
    assert texts[0].startswith("2 ranks (")
    assert any("by rank 0: 400; 1: 400; threads 0: 1; 1: 1; cores 0: 0; 1: 1; weights given back" in t for t in texts)
    assert texts[-1].startswith("Ranks on one CPU share its cores: where one rank computes on all of them")


def test_what_else_varies_tells_rows_apart(tmp_path):
    (found,) = section(tmp_path, precision="bf16")
    (table,) = (part for part in found.parts if isinstance(part, Table))
    columns = {column.title: column.cells for column in table.columns}
    assert columns["precision"] == ("fp32", "fp32", "bf16")


def test_nodes_stand_beside_ranks_where_there_are_several(tmp_path, monkeypatch):
    monkeypatch.setitem(FACTS, "node_by_rank", ("n1", "n2"))
    (found,) = section(tmp_path, nodes=2)
    (table,) = (part for part in found.parts if isinstance(part, Table))
    columns = {column.title: column.cells for column in table.columns}
    assert columns["nodes"] == ("1", "1", "2")
    texts = [part.text for part in found.parts if isinstance(part, Text)]
    assert any(t.startswith("2 ranks on 2 nodes, fsdp2") and "; nodes 0: n1; 1: n2" in t for t in texts)

"""Reading the documents that torchstone prints and the records it keeps, as any other program would: by their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Case = Mapping[str, Any]


def cases(document: Mapping[str, Any]) -> Sequence[Case]:
    """Return the cases of a run."""
    return list(document.get("cases") or ())


def case_where(document: Mapping[str, Any], **settings: Any) -> Case:
    """Return the one case with these settings of its configuration (`task`, `model`: of its workload)."""
    found = [case for case in cases(document) if all(_setting(case, name) == value for name, value in settings.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} cases with {settings}")
    return found[0]


def _setting(case: Case, name: str) -> Any:
    return case["workload"][name] if name in ("task", "model") else case["configuration"].get(name)


def figure(case: Case, name: str) -> float | None:
    """Return what is believed of a figure of a case; None where it has none."""
    found = case["estimates"].get(name)
    return None if found is None else float(found["value"])


def status(case: Case) -> str:
    """Return how the trials of a case ended: one word where all ended alike, the worst of them elsewhere."""
    ends = [str(trial["outcome"]["status"]) for trial in case["trials"]]
    return next((end for end in ends if end != "ok"), "ok") if ends else "not taken"


def message(case: Case) -> str:
    """Return why the first trial of a case that did not end well did so."""
    told = [trial["outcome"].get("message") for trial in case["trials"] if trial["outcome"]["status"] != "ok"]
    return str(told[0]) if told and told[0] else ""


def device(case: Case) -> str:
    """Return where a case was measured: cuda:0."""
    return f"{case['placement']['device']}:{case['placement'].get('index', 0)}"


def raw(document: Mapping[str, Any], metric: str, stage: str = "steady") -> Mapping[str, Sequence[float]]:
    """Return case_id → raw values of a metric of its first trial that ended well, from the record of a run."""
    found: dict[str, Sequence[float]] = {}
    for trial in _trials(Path(str(document["record"]))):
        if trial["outcome"]["status"] != "ok":
            continue
        for one in trial.get("measurements", ()):
            if one["metric"] == metric and one["stage"] == stage:
                found.setdefault(trial["case_id"], one["values"])
    return found


def _trials(record: Path) -> Iterator[Mapping[str, Any]]:
    with record.open(encoding="utf-8") as file:
        for line in file:
            told = json.loads(line)
            if told.get("record") == "trial":
                yield told

"""A search as a picture: what each of its probes found, the best so far against what it cost, and the final round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchstone.analysis.summary import RunSummary
from torchstone.core.charts.picture import Colours, Coordinate, Dots, Failure, Line, Mark, Panel, Picture
from torchstone.core.charts.thinning import thinned
from torchstone.core.schema.trial import Purpose, Status
from torchstone.report.document import Chart

_MOST = 500  # trials
_PROBE, _FINAL = "probe of the search", "trial of the final round"
_BEST = "best so far"
_SHADES = {_PROBE: "#999999", _FINAL: "#0072b2", _BEST: "#d55e00"}
_MOST_FAILED = 6  # words beside each other


def search_chart(run: RunSummary) -> Chart | None:
    """Return the throughput of each trial of a tune over the time spent so far; None where none has one."""
    trials = sorted((trial for case in run.cases for trial in case.trials), key=lambda trial: trial.order)
    values: list[Mapping[str, Any]] = []
    failed: list[Mapping[str, Any]] = []
    spent_s, best = 0.0, 0.0
    for trial in trials:
        spent_s += trial.duration_s or 0.0
        rate = trial.figures.values.get("throughput")
        if trial.outcome.status != Status.OK or rate is None:
            if trial.outcome.status != Status.SKIPPED:
                failed.append({"at": spent_s, "word": str(trial.outcome.status).replace("_", " ")})
            continue
        probed = trial.purpose == Purpose.PROBE
        values.append({"at": spent_s, "y": rate, "what": _PROBE if probed else _FINAL})
        if probed and rate > best:
            steps = (best, rate) if best else (rate,)  # it rises at once, not on the way
            values += [{"at": spent_s, "best": level, "what": _BEST} for level in steps]
            best = rate
    if len(values) < 2:
        return None
    kept = {at for at, _ in thinned([(value["at"], value["y"]) for value in values if "y" in value], _MOST)}
    shown = tuple(value for value in values if "best" in value or value["at"] in kept)
    item = run.cases[0].workload.item
    y, top = Coordinate("y", f"{item}s/s"), Coordinate("best", f"{item}s/s")
    names = tuple(name for name in _SHADES if any(value["what"] == name for value in shown))
    marks: tuple[Mark, ...] = (Line(top), Dots(y))
    if failed:
        marks = (*marks, Failure("word", tuple(failed[:_MOST_FAILED])))
    shades = Colours("what", names, tuple(_SHADES[name] for name in names))
    x = Coordinate("at", "time of trials so far, s")
    panel = Panel("", x, marks, shown, shades, width=560, height=260)
    words = "single trials: no intervals; the best of many probes looks better than it is, so a final round decides"
    says = "Throughput of each trial of the search over the time spent so far, and the final round"
    return Chart("search", says, Picture("What the search found", (panel,), words, columns=1))

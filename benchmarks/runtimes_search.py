"""`tune` over runtimes and formats of real models, against the best of everything that `runtime_table.py` measured.

1. `torchstone tune --objective latency --quality-margin 1%` over all runtimes and formats of a model.
2. The best of everything: of the rows in `data/runtimes.json` that compute the same or are shown to be as good, the one
   with the least median latency. Measure these first, on the same machine.
3. Where the two differ: both in interleaved rounds, their ratio with its interval (above 1: the answer is better).

    python benchmarks/runtimes_search.py [--models text-small,resnet,distilbert] [--rounds 8]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from runtime_table import LATENCY, MARGIN, torchstone, words_of
from tune import final_round, plan_of

from torchstone.core.schema.case import Case
from torchstone.plugins import registry

DATA = Path(__file__).parent / "data"
FORMATS = ("none", "int8-dynamic", "int8-static", "int8-weights", "int4-weights")


def variant_of(case: Case) -> tuple[str, str]:
    """Return the runtime, `compile` among them, and the format of a Case."""
    settings = case.configuration
    compiled = settings.get("compile", "off") != "off"
    return "compile" if compiled else str(settings.get("runtime", "eager")), str(settings.get("quantization", "none"))


def best_row(model: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fastest row of a model whose answers are as good."""
    fit = [
        row
        for row in rows
        if row["model"] == model
        and LATENCY in row["estimates"]
        and (row["quality"] is None or row["quality"]["verdict"] == "as good")
    ]
    return min(fit, key=lambda row: row["estimates"][LATENCY]["value"])


def searched(model: str, rounds: int, rows: list[dict[str, Any]], place: Path) -> dict[str, Any]:
    """Tune a model, and compare the answer with the best of everything."""
    runtimes = ("eager", *registry.names("runtimes"))
    axes = {"runtime": runtimes, "quantization": FORMATS, "compile": ("off", "default"), "batch_size": (1,)}
    told = [word for axis, values in axes.items() for word in ("--axis", f"{axis}={','.join(map(str, values))}")]
    for beside in ("runtime!=eager", "quantization!=none"):
        told += ["--exclude", f"compile=default,{beside}"]
    words = ["tune", "--task", "infer", "--device", "cpu", *words_of(model, place), *told, "--objective", "latency"]
    begin_s = time.monotonic()
    found = json.loads(torchstone([*words, "--quality-margin", MARGIN, "--json", "--quiet"], place))
    wall_s, answer = time.monotonic() - begin_s, found["answer"]["recommended"]
    cases = {case.case_id: case for case in plan_of(str(place / "outputs"), found["run_id"])}
    chosen, best = cases[answer["case_id"]], best_row(model, rows)
    wanted = best["runtime"], best["quantization"]
    row = {
        "model": model, "wall_s": wall_s, "points": found["answer"].get("points"), "probes": found["answer"]["probes"],
        "answer": variant_of(chosen), "best_of_all": wanted, "same": variant_of(chosen) == wanted,
        "gain_over_present": found["answer"]["gain"], "quality": answer.get("quality"),
        "p50_in_table_s": {name: _p50(model, variant, rows) for name, variant in
                           (("answer", variant_of(chosen)), ("best", wanted))},
    }  # fmt: skip
    if not row["same"]:
        settings = {**chosen.configuration, "runtime": "eager" if wanted[0] == "compile" else wanted[0]}
        settings |= {"quantization": wanted[1], "compile": "default" if wanted[0] == "compile" else "off"}
        other = msgspec.structs.replace(chosen, configuration=settings)
        row["answer_over_best"] = final_round(place / "outputs", chosen, other, rounds, "latency")
    return row


def _p50(model: str, variant: tuple[str, str], rows: list[dict[str, Any]]) -> float | None:
    own = [row for row in rows if (row["model"], row["runtime"], row["quantization"]) == (model, *variant)]
    return next((row["estimates"][LATENCY]["value"] for row in own if LATENCY in row["estimates"]), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="text-small,resnet,distilbert")
    parser.add_argument("--rounds", type=int, default=8, help="of the last comparison")
    parser.add_argument("--json", type=Path, default=DATA / "runtimes_search.json")
    options = parser.parse_args()
    rows = json.loads((DATA / "runtimes.json").read_text())["rows"]
    kept: list[dict[str, Any]] = json.loads(options.json.read_text()) if options.json.exists() else []
    for model in options.models.split(","):
        with tempfile.TemporaryDirectory(prefix="runtimes-search-") as place:
            kept = [row for row in kept if row["model"] != model]
            kept.append(searched(model, options.rounds, rows, Path(place)))
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
        print(json.dumps(kept[-1], indent=1))


if __name__ == "__main__":
    main()

"""`ab` of a runtime beside itself: how often does it call equal speed different?

Two files with the same settings are the two sides, so that nothing differs but their names. Runtimes take turns; each
comparison is added to the file at its end, and what is there is not repeated, so that a campaign can be cut off. One
with fewer pairs than decide anything (no ratio) is counted apart, and repeated by the next call.

    python benchmarks/runtimes_aa.py [--runs 34] [--within 60s] [--runtimes eager,onnxruntime,openvino]
    python benchmarks/runtimes_aa.py --show
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from aa import append, upper

MODEL = "builtin:cnn"


def compared(runtime: str, within: str, seed: int) -> dict[str, Any]:
    """Compare a runtime with itself and return the row."""
    with tempfile.TemporaryDirectory(prefix="runtimes-aa-") as place:
        for side in "ab":
            axes = {"runtime": runtime, "batch_size": 1, "mode": "latency"}
            Path(place, f"{side}.yaml").write_text(json.dumps({"task": "infer", "model": MODEL, "axes": axes}))
        words = ["ab", "a.yaml", "b.yaml", "--within", within, "--seed", str(seed), "--json", "--quiet"]
        place_of_runs = {**os.environ, "TORCHSTONE_OUTPUT": f"{place}/outputs"}
        command = [sys.executable, "-m", "torchstone", *words]
        done = subprocess.run(command, cwd=place, env=place_of_runs, capture_output=True, text=True, check=False)
        if not done.stdout:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    answer = json.loads(done.stdout)["answer"]
    found, course = answer["comparison"], answer["course"]
    ratio = found["ratio"] and {end: found["ratio"][end] for end in ("value", "low", "high")}
    spent = {name: course[name] for name in ("pairs", "templates", "elapsed_s", "stopped_because")}
    return {"runtime": runtime, "within": within, "seed": seed, "verdict": found["verdict"], "ratio": ratio, **spent}


def main() -> int:
    """Compare, and print what was said; exit 1 where a difference was called."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=34, help="of each runtime, with those in the file")
    parser.add_argument("--within", default="60s")
    parser.add_argument("--runtimes", default="eager,onnxruntime,openvino")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "runtimes_aa.json")
    options = parser.parse_args()
    names = options.runtimes.split(",")
    rows = json.loads(options.json.read_text()) if options.json.exists() else []
    there = {(row["runtime"], row["seed"]) for row in rows if row["ratio"]}
    for seed, name in ((n, name) for n in range(0 if options.show else options.runs) for name in names):
        if (name, seed) not in there:
            rows.append(compared(name, options.within, seed))
            append(options.json, rows[-1])
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    decided = [row for row in rows if row["ratio"]]
    for name in names:
        verdicts = [row["verdict"] for row in decided if row["runtime"] == name]
        counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("same", "unclear", "better", "worse"))
        print(f"{name:12} {len(verdicts)} comparisons: {counts}")
    alarms = sum(row["verdict"] in ("better", "worse") for row in decided)
    limit = f"; upper 95 % limit {100 * upper(alarms, len(decided)):.1f} %" if decided else ""
    print(f"{alarms} false alarms of {len(decided)}{limit}; {len(rows) - len(decided)} with too few pairs")
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())

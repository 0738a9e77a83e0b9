"""The latency that `run` reads of each runtime, beside a loop written by hand with that library, interleaved.

One model (DistilBERT, 128 tokens, batch 1, random weights) and one number of threads. A round takes a trial of ours in
its own process (`--axis runtime=NAME --axis mode=latency`) and a process with the loop by hand, in random order; both
give a median latency. What was exported by hand is kept for the next round. The median of the rounds' ratios has its
distribution-free 95 % interval.

    python benchmarks/runtimes.py [--rounds 9] [--runtimes onnxruntime,openvino]   exit 1 if an interval leaves out 1
                                                                                  and its median is off by over 1 %
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from torchstone.core.stats.quantile import bounds
from torchstone.plugins.launchers._process import environment

MODEL = """
import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification

def load():
    torch.manual_seed(0)
    tensors = {"input_ids": torch.randint(0, 30000, (1, 128)), "attention_mask": torch.ones(1, 128, dtype=torch.int64)}
    return DistilBertForSequenceClassification(DistilBertConfig()).eval(), tensors
"""
BY_HAND = """
import os, statistics, sys, time, warnings
warnings.simplefilter("ignore")
import torch
from bert import load

name, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(threads)
model, tensors = load()
if name == "onnxruntime":
    import onnxruntime
    if not os.path.exists("model.onnx"):
        torch.onnx.export(model, (), "model.onnx", kwargs=tensors, dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    arrays = {one: tensor.numpy() for one, tensor in tensors.items()}
    query = lambda: session.run(None, arrays)
elif name == "openvino":
    sys.modules["openvino_telemetry"] = None
    import openvino
    converted = openvino.convert_model(torch.export.export(model, (), tensors))
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
                "ENABLE_CPU_PINNING": False}
    request = openvino.Core().compile_model(converted, "CPU", settings).create_infer_request()
    arrays = [tensor.numpy() for tensor in tensors.values()]
    query = lambda: request.infer(arrays, share_inputs=True, share_outputs=True)
elif name == "aoti":
    if not os.path.exists("model.pt2"):
        exported = torch.export.export(model, (), tensors)
        torch._inductor.aoti_compile_and_package(exported, package_path="model.pt2")
    answer = torch._inductor.aoti_load_package("model.pt2")
    query = lambda: answer(**tensors)
elif name == "executorch":
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime
    if not os.path.exists("model.pte"):
        exported = torch.export.export(model, (), tensors)
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        with open("model.pte", "wb") as file:
            lowered.write_to_file(file)
    portable_lib._unsafe_reset_threadpool(threads)
    method = Runtime.get().load_program("model.pte").load_method("forward")
    arrays = list(tensors.values())
    query = lambda: method.execute(arrays)
else:
    query = lambda: model(**tensors)
laps = []
with torch.inference_mode():
    end = time.perf_counter() + seconds / 4
    while time.perf_counter() < end:
        query()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        query()
        laps.append(time.perf_counter() - begin)
print(statistics.median(laps))
"""


def ours(name: str, threads: int, seconds: float, folder: Path) -> float:
    axes = [word for axis in (f"runtime={name}", f"threads={threads}", "mode=latency") for word in ("--axis", axis)]
    how = ["--trials", "1", "--budget", f"{seconds:g}s", "--quiet", "--json", "--when-busy", "share"]
    words = ["run", "--task", "infer", "--model", "py:bert.py:load", *axes, *how, "--output-dir", str(folder / "runs")]
    (case,) = json.loads(run([sys.executable, "-m", "torchstone", *words], folder))["cases"]
    return float(case["estimates"]["latency_per_batch_p50_s"]["value"])


def by_hand(name: str, threads: int, seconds: float, folder: Path) -> float:
    return float(run([sys.executable, "by_hand.py", name, str(threads), str(seconds)], folder).splitlines()[-1])


def run(command: list[str], folder: Path) -> str:
    alike = environment("fixed")  # the heap of trials
    done = subprocess.run(command, cwd=folder, env=alike, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runtimes", default="eager,onnxruntime,openvino,executorch,aoti")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "runtimes_by_hand.json")
    options = parser.parse_args()
    names, dice, failed = options.runtimes.split(","), random.Random(0), False
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "bert.py").write_text(MODEL)
        (folder / "by_hand.py").write_text(BY_HAND)
        for _ in range(options.rounds):
            for name in dice.sample(names, len(names)):
                pair = [(ours, 0), (by_hand, 1)]
                dice.shuffle(pair)
                taken = {place: way(name, options.threads, options.seconds, folder) for way, place in pair}
                found[name].append((taken[0], taken[1]))
                print(f"{name}: {1e3 * taken[0]:.2f} ms, by hand {1e3 * taken[1]:.2f} ms", file=sys.stderr)
    rows = {name: [{"run_s": mine, "by_hand_s": hand} for mine, hand in pairs] for name, pairs in found.items()}
    options.json.write_text(json.dumps({"threads": options.threads, "seconds": options.seconds, "rounds": rows}) + "\n")
    print(f"{'runtime':12} {'run':>9} {'by hand':>9}  ratio, 95 % interval ({options.rounds} rounds)")
    for name, pairs in found.items():
        ratios = sorted(mine / hand for mine, hand in pairs)
        middle, (low, high) = statistics.median(ratios), bounds(ratios, 0.5)
        low, high = low or 0.0, high or math.inf  # of fewer than six rounds there is none
        mine, hand = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
        print(f"{name:12} {1e3 * mine:6.2f} ms {1e3 * hand:6.2f} ms  {middle:.3f} [{low:.3f}, {high:.3f}]")
        failed |= not low <= 1.0 <= high and abs(middle - 1.0) > 0.01
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

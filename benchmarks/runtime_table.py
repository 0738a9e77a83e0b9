"""Models × runtimes × quantization on the CPU: latency, size, export and build time, quality beside speed.

Each model is one `torchstone run` whose cases are measured in turn (`--axis runtime=… --axis quantization=…`, batch 1,
margin 1 %) and read from its stored record. The models are functions of this file (`py:`). Trained are text-small, on
SST-2, a CNN, on CIFAR-10, and a ResNet, on the digits that come with torchstone: their quality is accuracy on held-out
items. The others have random weights and made-up inputs: how often they answer as in eager mode says little of a
trained model.

    python benchmarks/runtime_table.py [--models distilbert,resnet] [--trials 3]   what is in --json is not repeated
    python benchmarks/runtime_table.py --show                                      the table alone, in Markdown
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils.data import Dataset

from torchstone.extend import stored_run
from torchstone.plugins import registry

DATA = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
LEARNED = {  # model: the recipe that trains it, its data, epochs, its input
    "text-small": ("sst2-small", f"sst2:{DATA / 'sst2'}", 3, "sequence_length=64"),
    "cnn": ("cifar10-small", f"cifar10:{DATA / 'cifar10'}", 10, "image_size=32"),
}
TRIALS = {"branching": 3, "resnet": 5, "text-small": 5, "cnn": 5, "distilbert": 3, "whisper": 2, "gpt2": 2, "vit": 2}
MARGIN, LATENCY = "1%", "latency_per_batch_p50_s"
FIGURES = (LATENCY, "throughput", "exported_bytes", "export_time_s", "build_time_s", "relative_output_error")

Items = list[dict[str, torch.Tensor]]


class Made(Dataset[dict[str, torch.Tensor]]):
    """Items that are made beforehand."""

    def __init__(self, items: Items) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self._items[index]


def tokens(count: int, words: int) -> Made:
    ones = torch.ones(128, dtype=torch.long)
    return Made([{"input_ids": torch.randint(words, (128,)), "attention_mask": ones} for _ in range(count)])


def distilbert() -> tuple[nn.Module, Made]:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    torch.manual_seed(0)
    return DistilBertForSequenceClassification(DistilBertConfig()), tokens(100, 30_000)


class NextToken(nn.Module):
    """A language model that gives the scores of one token more."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """Sequences × tokens, twice → sequences × words."""
        told = self.inner(input_ids=input_ids, attention_mask=attention_mask, use_cache=False, logits_to_keep=1)
        return told.logits[:, -1]


def gpt2() -> tuple[nn.Module, Made]:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return NextToken(GPT2LMHeadModel(GPT2Config())), tokens(50, 50_000)


def vit() -> tuple[nn.Module, Made]:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    network = ViTForImageClassification(ViTConfig(num_labels=10))
    return network, Made([{"pixel_values": torch.randn(3, 224, 224)} for _ in range(30)])


def whisper() -> tuple[nn.Module, Made]:
    from transformers import WhisperConfig, WhisperForAudioClassification

    torch.manual_seed(0)
    sizes = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    network = WhisperForAudioClassification(WhisperConfig(**sizes, num_labels=10))
    return network, Made([{"input_features": torch.randn(80, 3000)} for _ in range(30)])


class Branching(nn.Module):
    """A network that does more for some inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.more, self.last = nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 10)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Items × 256 → items × 10."""
        hidden = self.first(features).relu()
        if hidden.mean() > 0.2:
            hidden = self.more(hidden).relu()
        scores: torch.Tensor = self.last(hidden)
        return scores


def branching() -> tuple[nn.Module, Made]:
    torch.manual_seed(0)
    return Branching(), Made([{"features": torch.randn(256)} for _ in range(400)])


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.shortcut = nn.Identity() if stride == 1 and before == after else nn.Conv2d(before, after, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images × channels × side × side."""
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """Eight blocks of 16 to 128 channels over images of 32 × 32: 0.7 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        widths = ((16, 16, 1), (16, 32, 2), (32, 64, 2), (64, 128, 2))
        blocks = [block for a, b, stride in widths for block in (Block(a, b, stride), Block(b, b, 1))]
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(128, 10)

    def forward(self, pixel_values: torch.Tensor) -> Any:
        """Images × 3 × 32 × 32 → images × 10."""
        return self.head(self.layers(pixel_values))


def loss(module: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(module(batch["pixel_values"]), batch["labels"])


def make_optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3)


def resnet(weights: str = "") -> tuple[nn.Module, Made, Callable[..., Any], Callable[..., Any]]:
    """Return the ResNet with 797 digits to learn from; with weights of it, the 1,000 others."""
    from safetensors.torch import load_file

    from torchstone.core.schema.model import InputSpec, View

    torch.manual_seed(0)
    network, order = ResNet(), torch.randperm(1797).tolist()
    digits = registry.load("data", "digits").samples("", View(InputSpec("image", classes=10), {"image_size": 32}))
    if weights:
        network.load_state_dict(load_file(weights))
    return network, Made([digits[n] for n in (order[797:] if weights else order[:797])]), make_optimizer, loss


def torchstone(words: Sequence[str], folder: Path) -> str:
    """Run a command; end with its own words where it cannot begin."""
    command = [sys.executable, "-m", "torchstone", *words]
    place = {**os.environ, "TORCHSTONE_OUTPUT": str(folder / "outputs")}
    done = subprocess.run(command, cwd=folder, env=place, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def trained(words: Sequence[str], folder: Path) -> Path:
    """Train; return the weights of the last epoch."""
    torchstone(["train", *words, "--output", str(folder), "--json"], folder.parent)
    number = lambda file: int(file.stem.rpartition("_")[2])
    return max(folder.glob("checkpoint_epoch_*.safetensors"), key=number)


def words_of(model: str, folder: Path) -> list[str]:
    """Return what names a model to `torchstone run`, trained where it is one that is."""
    file = str(Path(__file__).resolve())
    if model in LEARNED:
        recipe, data, epochs, size = LEARNED[model]
        weights = trained([recipe, "--data", data, "--epochs", str(epochs)], folder / model)
        return ["--model", f"builtin:{model}@{weights}", "--data", data, "--axis", size]
    if model == "resnet":
        way = ["--model", f"py:{file}:resnet", "--axis", "batch_size=32", "--epochs", "5"]
        return ["--model", f"py:{file}:resnet", "--option", f"weights={trained(way, folder / model)}"]
    return ["--model", f"py:{file}:{model}"]


def measured(model: str, trials: int, budget_s: float, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure every runtime and format of a model in turn; yield a row of each."""
    runtimes = registry.names("runtimes")
    formats = dict.fromkeys(
        ("int8-dynamic", *(q for n in runtimes for q in registry.load("runtimes", n).quantizations))
    )
    axes = {
        "runtime": ("eager", *runtimes), "compile": ("off", "default"), "mode": ("latency",), "batch_size": (1,),
        "quantization": ("none", *(() if model == "branching" else formats)),
    }  # fmt: skip
    told = [word for axis, values in axes.items() for word in ("--axis", f"{axis}={','.join(map(str, values))}")]
    for beside in ("runtime!=eager", "quantization!=none"):
        told += ["--exclude", f"compile=default,{beside}"]
    how = ["--trials", str(trials), "--budget", f"{budget_s:g}s", "--warmup-budget", "1s", "--no-phases"]
    words = ["run", "--task", "infer", "--device", "cpu", *words_of(model, folder), *told, *how]
    begin_s, before = time.monotonic(), os.getloadavg()[0]
    found = json.loads(torchstone([*words, "--quality-margin", MARGIN, "--quiet", "--json"], folder))
    record = stored_run(found["run_id"], folder / "outputs")
    beside_it = {
        "date": time.strftime("%Y-%m-%d"), "load": [round(one, 2) for one in (before, os.getloadavg()[0])],
        "seconds": round(time.monotonic() - begin_s), "budget_s": budget_s,
    }  # fmt: skip
    for case in found["cases"]:
        at, taken = case["configuration"], [t for t in record.trials if t.case_id == case["case_id"]]
        if not taken:
            continue
        compiled = at.get("compile", "off") != "off"
        answers = next((t.facts.answers for t in taken if t.facts.answers is not None), None)
        yield {
            "model": model,
            "runtime": "compile" if compiled else at.get("runtime", "eager"),
            "quantization": at.get("quantization", "none"),
            **beside_it,
            "trials": sum(t.outcome.status == "ok" for t in taken),
            "disturbed": sum(bool(t.disturbed) for t in taken),
            "outcome": taken[0].outcome.status,
            "message": taken[0].outcome.message,
            "verdict": case["verdict"],
            "estimates": {n: {k: e[k] for k in ("value", "low", "high")} for n, e in case["estimates"].items()
                          if n in FIGURES},
            "quality": case["quality"],
            "answers": msgspec.to_builtins(answers),
        }  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table in Markdown: what was measured, and below it why the others were not."""
    heads = "runtime", "quantization", "latency p50, ms", "times eager's speed", "disk, MB", "export, s", "build, s"
    yield "| model | " + " | ".join((*heads, "same answer", "accuracy", "as good?")) + " |"
    yield "|---" * 11 + "|"
    eager = {r["model"]: r for r in rows if (r["runtime"], r["quantization"]) == ("eager", "none")}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        name = f"{row['model']}, {row['runtime']}, {row['quantization']}"
        if LATENCY not in row["estimates"]:
            reasons.setdefault(f"{row['outcome']}: {row['message']}", []).append(name)
            continue
        yield "| " + " | ".join((row["model"], row["runtime"], row["quantization"], *cells(row, eager))) + " |"
    for why, names in reasons.items():
        yield f"- {'; '.join(names)}: {why}"


def cells(row: Mapping[str, Any], eager: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the cells of what was measured."""
    told, quality, answers = row["estimates"], row["quality"], row["answers"]
    value, *ends = (short(1e3 * told[LATENCY][k]) for k in ("value", "low", "high") if told[LATENCY][k] is not None)
    yield value + (f" [{', '.join(ends)}]" if ends else "")
    base = eager[row["model"]]
    ratio = f"{base['estimates'][LATENCY]['value'] / told[LATENCY]['value']:.2f}" if base["verdict"] == "VALID" else "–"
    undecided = quality is not None and quality["verdict"] != "as good"  # which alone makes a case SUSPECT
    yield ratio if row["verdict"] == "VALID" or undecided else f"{ratio}, {row['verdict']}"
    for figure, unit in (("exported_bytes", 1e6), ("export_time_s", 1.0), ("build_time_s", 1.0)):
        yield short(told[figure]["value"] / unit) if figure in told else "–"
    yield f"{answers['same']} of {answers['items']}" if answers else "–"
    labelled = answers is not None and answers["right"] is not None
    yield f"{(answers['right'] + answers['gained']) / answers['items']:.1%}".replace("%", " %") if labelled else "–"
    needed = f", {quality['items_needed']:,} items would decide" if quality and quality["items_needed"] else ""
    same = "computes the same" if "relative_output_error" in told else "–"  # eager mode in fp32 is what all are beside
    yield same if quality is None else quality["verdict"] + needed


def short(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3g}" if value < 1000.0 else f"{value:.0f}"


def main() -> int:
    """Measure what --json lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(TRIALS), help="in this order")
    parser.add_argument("--trials", type=int, help="of each (default: 5 of small models, 3 or 2 of large ones)")
    parser.add_argument("--budget", type=float, default=1.5, metavar="S", help="time of a window (default 1.5)")
    parser.add_argument("--within", type=float, default=1500.0, metavar="S", help="begin no model after this time")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "runtimes.json")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(options.json.read_text())["rows"] if options.json.exists() else []
    models = [] if options.show else [m for m in options.models.split(",") if m not in {r["model"] for r in rows}]
    end_s = time.monotonic() + options.within
    with tempfile.TemporaryDirectory(prefix="runtime-table-") as place:
        for model in models:
            if model in LEARNED and not Path(LEARNED[model][1].partition(":")[2]).is_dir():
                print(f"{model} is left out: no {LEARNED[model][1]}; set TORCHSTONE_TEST_DATA", file=sys.stderr)
                continue
            if time.monotonic() > end_s:
                print(f"{model} is left out: over --within", file=sys.stderr)
                continue
            rows += measured(model, options.trials or TRIALS[model], options.budget, Path(place))
            options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
            print(f"{model}: {sum(r['model'] == model for r in rows)} rows", file=sys.stderr)
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""People's own programs, unmodified: `torchstone run -- LINE` beside stamps that were put by hand into a copy.

For each program: (1) the line as it is typed, and the minutes to its answer; (2) in drawn order, again and again, a
trial of it by `torchstone run`, and the stamped copy by itself: the ratio of their steps and of items/s, with its
interval over the pairs (wanted: within 1 %, or it holds 1); (3) the stamped copy by `torchstone run`: phases by the
hooks over those by the stamps, in the same steps (wanted: within 2 %, or 50 µs).

`--projects` is a folder with checkouts as git makes them (nanoGPT, minGPT, examples, transformers, accelerate,
diffusers, pytorch-lightning). Their libraries are found by PYTHONPATH; `--libraries NAME=FOLDER` puts a folder before
it for one program. Data and small models with random weights are made where the programs look for them, so nothing is
downloaded. A program that is not there, or does not run, is left out with the reason. Results are kept in
benchmarks/data/scripts_by_hand.json as they come; what is there is not measured again but by name.

    python benchmarks/scripts_by_hand.py --projects FOLDER [--pairs N] [NAME …]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from torchstone.core.stats.interval import over_trials

DATA = Path(__file__).parent / "data/scripts_by_hand.json"
PHASES = ("data", "forward", "backward", "optimizer", "rest")
LOADER = "torch.utils.data.dataloader._BaseDataLoaderIter, '__next__', 'data'"
ADAMW = "torch.optim.AdamW, 'step', 'optimizer|'"
_COLUMN = 11  # of a line of the program in `stamps`, as it stands there

BY_HAND = """
import atexit, functools, json, os, sys, time
import torch
marks, pid, until = [], os.getpid(), [float("inf")]
ours = os.environ.get("RANK", "0") == "0"

class phase:
    def __init__(self, name): self.name = name.rstrip("|"); self.ends = name.endswith("|")
    def __enter__(self): marks.append((time.perf_counter(), self.name))
    def __exit__(self, *_):
        now = time.perf_counter()
        marks.append((now, None))
        if not self.ends: return
        marks.append((now, "|"))
        if until[0] == float("inf"): until[0] = now + 0.5 + float(os.environ["BY_HAND_S"])
        if ours and now > until[0]:
            write()
            sys.exit()

def loaded(batches):
    batches = iter(batches)
    while True:
        with phase("data"):
            batch = next(batches, marks)
        if batch is marks: return
        yield batch
        batch = None  # to be freed where the program frees it, not while the next is loaded

def around(owner, name, phase_name):
    call = getattr(owner, name)
    @functools.wraps(call)
    def timed(*args, **kwargs):
        with phase(phase_name): return call(*args, **kwargs)
    setattr(owner, name, timed)

@atexit.register
def write():
    if not ours or os.getpid() != pid: return
    program = getattr(sys.modules.get("_torchstone_hooks"), "_program", None)
    with open(os.environ["BY_HAND"] + "~", "w") as file:
        json.dump({"marks": marks, "window_s": program and program.window_s}, file)
    os.replace(file.name, os.environ["BY_HAND"])
"""


class Program(NamedTuple):
    """A line, typed in `folder` of the checkouts, and the lines of `file` that are timed by hand.

    `stamps`: a phase, and from _COLUMN on the line; the phase with a | ends the step. `around`: calls of a library that
    has the loop, timed from the line of that name on. `items`: of a step, as its author would count them.
    """

    folder: str
    line: str
    file: str
    stamps: str
    items: int
    make: Callable[[Path], None] = lambda _: None
    options: tuple[str, ...] = ()
    path: str = ""
    note: str = ""
    around: tuple[str, ...] = ()


# ── data that the programs look for ─────────────────────────────────────────────────────────────────────────


def digits(folder: Path) -> None:
    """Write MNIST's four files, of noise, into ../data."""
    raw = folder.parent / "data/MNIST/raw"
    raw.mkdir(parents=True, exist_ok=True)
    dice = random.Random(0)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        images = struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(dice.randbytes(784) for _ in range(count))
        labels = struct.pack(">II", 0x801, count) + bytes(n % 10 for n in range(count))
        (raw / f"{part}-images-idx3-ubyte").write_bytes(images)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def sentences(count: int) -> list[str]:
    dice, words = random.Random(1), [f"w{n}" for n in range(2000)]
    return [" ".join(dice.choices(words, k=dice.randint(8, 40))) for _ in range(count)]


def text(*names: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("\n".join(sentences(20_000)))

    return make


def characters(folder: Path) -> None:
    """Have nanoGPT's own script prepare a text."""
    text("data/shakespeare_char/input.txt")(folder)
    subprocess.run([sys.executable, "data/shakespeare_char/prepare.py"], cwd=folder, check=True)


def checkpoint(folder: Path) -> None:
    characters(folder)
    line = f"{NANOGPT} --eval_interval=5 --max_iters=5 --always_save_checkpoint=True"
    subprocess.run(typed(line), cwd=folder, check=True, stdout=subprocess.DEVNULL)


def small_bert(folder: Path) -> None:
    """Write a BERT of two layers and its tokenizer where hub names are looked for first."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    marks = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    words = [*marks.values(), *(f"w{n}" for n in range(2000))]
    tokenizer = BertWordPieceTokenizer({word: n for n, word in enumerate(words)})
    named = {f"{name}_token": mark for name, mark in marks.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, **named).save_pretrained(folder / "bert-base-cased")
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(words), **sizes))
    model.save_pretrained(folder / "bert-base-cased")


METRIC = """
import datasets
import evaluate
class Accuracy(evaluate.Metric):
    def _info(self):
        features = {name: datasets.Value("int64") for name in ("predictions", "references")}
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(features))
    def _compute(self, predictions, references):
        return {"accuracy": sum(map(int.__eq__, map(int, predictions), map(int, references))) / len(predictions)}
"""


def pairs_of_sentences(folder: Path) -> None:
    """Write a small BERT, GLUE's MRPC and its metric where hub names are looked for first."""
    small_bert(folder)
    place = folder / "nyu-mll/glue"
    place.mkdir(parents=True)
    configuration = ["---", "configs:", "- config_name: mrpc", "  data_files:"]
    for split, count in (("train", 3668), ("validation", 408)):
        firsts = sentences(count)
        rows = enumerate(zip(firsts, reversed(firsts), strict=True))
        lines = [json.dumps({"sentence1": a, "sentence2": b, "label": n % 2, "idx": n}) for n, (a, b) in rows]
        (place / f"{split}.jsonl").write_text("\n".join(lines))
        configuration += [f"  - split: {split}", f"    path: {split}.jsonl"]
    (place / "README.md").write_text("\n".join([*configuration, "---"]))
    (folder / "glue").mkdir()
    (folder / "glue/glue.py").write_text(METRIC)


def labelled_sentences(folder: Path) -> None:
    small_bert(folder)
    for split, count in (("train", 6000), ("dev", 200)):
        rows = [f"{sentence},{n % 2}" for n, sentence in enumerate(sentences(count))]
        (folder / f"{split}.csv").write_text("\n".join(["sentence,label", *rows]))
    (folder / "accuracy").mkdir()
    (folder / "accuracy/accuracy.py").write_text(METRIC)


def pictures(folder: Path) -> None:
    from PIL import Image

    dice = random.Random(2)
    (folder / "pictures").mkdir()
    for n in range(400):
        Image.frombytes("RGB", (40, 40), dice.randbytes(4800)).save(folder / f"pictures/{n}.png")
    about = {
        "_class_name": "UNet2DModel",
        "sample_size": 32,
        "in_channels": 3,
        "out_channels": 3,
        "layers_per_block": 1,
        "block_out_channels": [32, 64],
        "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
        "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
        "norm_num_groups": 8,
    }
    (folder / "unet").mkdir()
    (folder / "unet/config.json").write_text(json.dumps(about))


# ── the programs ────────────────────────────────────────────────────────────────────────────────────────────

NANOGPT = (
    "python train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 --log_interval=1 "
    "--block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --lr_decay_iters=2000 --dropout=0.0"
)
NLP = """
data               for step, batch in enumerate(train_dataloader):
forward                outputs = model(**batch)
backward               accelerator.backward(loss)
optimizer|                 optimizer.step()
"""
PROGRAMS = {
    "nanoGPT": Program(
        "nanoGPT",
        f"{NANOGPT} --max_iters=2000",
        "train.py",
        """
left out           losses = estimate_loss()
forward                logits, loss = model(X, Y)
backward           scaler.scale(loss).backward()
optimizer|     scaler.step(optimizer)
""",
        12,
        characters,
    ),
    "minGPT": Program(
        "minGPT",
        "python projects/adder/adder.py",
        "mingpt/trainer.py",
        """
data                       batch = next(data_iter)
forward                logits, self.loss = model(x, y)
backward               self.loss.backward()
optimizer|             self.optimizer.step()
""",
        64,
        path=".",
    ),
    "mnist": Program(
        "examples/mnist",
        "python main.py",
        "main.py",
        """
data           for batch_idx, (data, target) in enumerate(train_loader):
forward            output = model(data)
backward           loss.backward()
optimizer|         optimizer.step()
""",
        64,
        digits,
    ),
    "vae": Program(
        "examples/vae",
        "python main.py",
        "main.py",
        """
data           for batch_idx, (data, _) in enumerate(train_loader):
forward            recon_batch, mu, logvar = model(data)
backward           loss.backward()
optimizer|         optimizer.step()
""",
        128,
        digits,
    ),
    "word_language_model": Program(
        "examples/word_language_model",
        "python main.py --epochs 6",
        "main.py",
        """
forward                output, hidden = model(data, hidden)
backward|          loss.backward()
""",
        35,
        text(*(f"data/wikitext-2/{part}.txt" for part in ("train", "valid", "test"))),
        options=("--step", "backward"),
        note="no optimizer: the script adds the gradients to the weights; its tensors are time × batch",
    ),
    "dcgan": Program(
        "examples/dcgan",
        "python main.py --dataset fake --batchSize 16 --ngf 16 --ndf 16",
        "main.py",
        """
data           for i, data in enumerate(dataloader, 0):
forward            output = netD(real_cpu)
forward            fake = netG(noise)
forward            output = netD(fake.detach())
forward            output = netD(fake)
forward                fake = netG(fixed_noise)
backward           errD_real.backward()
backward           errD_fake.backward()
backward           errG.backward()
optimizer          optimizerD.step()
optimizer|         optimizerG.step()
""",
        16,
        note="a GAN",
    ),
    "imagenet": Program(
        "examples/imagenet",
        "python main.py --dummy -a resnet18 -b 4 -j 1",
        "main.py",
        """
data           for i, (images, target) in enumerate(train_loader):
forward            output = model(images)
backward           loss.backward()
optimizer|         optimizer.step()
""",
        4,
    ),
    "run_glue": Program(
        "transformers/examples/pytorch/text-classification",
        "python run_glue.py --model_name_or_path bert-base-cased --train_file train.csv --validation_file dev.csv "
        "--do_train --do_eval --max_seq_length 64 --per_device_train_batch_size 16 --output_dir finetuned "
        "--report_to none",
        "run_glue.py",
        "around             train_result = trainer.train(resume_from_checkpoint=checkpoint)",
        16,
        labelled_sentences,
        around=("trainer.model, 'forward', 'forward'", "trainer.accelerator, 'backward', 'backward'", ADAMW, LOADER),
    ),
    "lightning": Program(
        "pytorch-lightning/examples/pytorch/basics",
        "python transformer.py",
        "transformer.py",
        """
forward            output = self.model(input, target)
around         trainer.fit(model, train_dataloader, val_dataloader)
""",
        20,
        text("data/wikitext-2.txt"),
        around=("torch.Tensor, 'backward', 'backward'", "torch.optim.SGD, 'step', 'optimizer|'", LOADER),
        note="forward and backward passes happen within the optimizer's step",
    ),
    "accelerate": Program(
        "accelerate/examples", "python nlp_example.py --cpu", "nlp_example.py", NLP, 16, pairs_of_sentences
    ),
    "ddp": Program(
        "accelerate/examples",
        "python -m torch.distributed.run --nproc_per_node 2 nlp_example.py --cpu",
        "nlp_example.py",
        NLP,
        32,
        pairs_of_sentences,
        note="two ranks of torchrun",
    ),
    "inference": Program(
        "nanoGPT",
        "python sample.py --device=cpu --out_dir=out-shakespeare-char",
        "model.py",
        "forward|               logits, _ = self(idx_cond)",
        1,
        checkpoint,
        note="a step is a token",
    ),
    "diffusion": Program(
        "diffusers/examples/unconditional_image_generation",
        "python train_unconditional.py --train_data_dir pictures --resolution 32 --model_config_name_or_path unet "
        "--train_batch_size 8 --output_dir ddpm",
        "train_unconditional.py",
        """
data               for step, batch in enumerate(train_dataloader):
forward                    model_output = model(noisy_images, timesteps).sample
backward                   accelerator.backward(loss)
optimizer|                 optimizer.step()
""",
        8,
        pictures,
    ),
}


# ── measuring ───────────────────────────────────────────────────────────────────────────────────────────────


class Absent(Exception):
    """Why a program is not measured."""


class Place(NamedTuple):
    """Where a program and its stamped copy lie, and the environment in which they run."""

    own: Path
    stamped: Path
    environment: dict[str, str]


def typed(line: str) -> list[str]:
    """Return the words of a line, with this Python."""
    return [sys.executable if word == "python" else word for word in shlex.split(line)]


def prepared(program: Program, name: str, options: argparse.Namespace, scratch: Path) -> Place:
    """Copy the program twice, make its data, and put stamps into the second copy. Raises Absent."""
    project, _, _ = program.folder.partition("/")
    if not (options.projects / program.folder / program.file).exists():
        raise Absent(f"no {program.folder}/{program.file} in the folder of --projects")
    (scratch / "by_hand.py").write_text(BY_HAND)
    libraries = dict(one.split("=", 1) for one in options.libraries).get(name)
    paths = [program.path, libraries, os.environ.get("PYTHONPATH"), str(scratch)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HOME": str(scratch / "hub"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    shutil.copytree(options.projects / project, scratch / "own" / project, ignore=shutil.ignore_patterns(".git"))
    words = [sys.executable, __file__, "--make", name, "--projects", str(scratch / "own")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent(last_line(done.stderr))
    shutil.copytree(scratch / "own", scratch / "stamped")
    file = scratch / "stamped" / program.folder / program.file
    file.write_text(with_stamps(file.read_text(), program))
    return Place(scratch / "own" / program.folder, scratch / "stamped" / program.folder, environment)


def with_stamps(script: str, program: Program) -> str:
    """Return a script with stamps around the lines that are named. Raises Absent where one is not in it."""
    stamps = {line[_COLUMN:]: line[:_COLUMN].strip() for line in program.stamps.splitlines() if line}
    lines = [line for line in script.splitlines() if not line.startswith("from __future__")]  # of Python 2, come first
    if missing := [line.strip() for line in stamps if line not in lines]:
        raise Absent(f"this revision has no line «{missing[0]}»")
    first = next(place for place, line in enumerate(lines) if re.match(r"(import|from) \w", line))
    made = [stamped(line, stamps[line], program) if line in stamps else line for line in lines]
    return "\n".join([*made[:first], "import by_hand", *made[first:], ""])


def stamped(line: str, phase: str, program: Program) -> str:
    statement = line.lstrip()
    indent = line[: len(line) - len(statement)]
    if phase == "around":
        calls = [f"by_hand.around({call.replace('torch.', 'by_hand.torch.', 1)}); " for call in program.around]
        return f"{indent}{''.join(calls)}{statement}"
    if statement.startswith("for "):
        head, _, batches = statement.removesuffix(":").partition(" in ")
        return f"{indent}{head} in by_hand.loaded({batches}):"
    return f"{indent}with by_hand.phase({phase!r}): {statement}"


def last_line(said: str) -> str:
    return (said.strip() or "no word").splitlines()[-1][:300]


class Answer(NamedTuple):
    """What `torchstone run -- LINE` says, and the raw values of its trials."""

    case: dict[str, Any]
    measurements: list[dict[str, Any]]

    def figure(self, name: str) -> float | None:
        """Return a figure of the answer; None where it has none."""
        found = self.case["estimates"].get(name)
        return None if found is None else float(found["value"])

    def steady(self, metric: str, phase: str | None = None) -> list[float]:
        """Return the values of all steps in the windows."""
        every = [one for one in self.measurements if one["stage"] == "steady" and one["metric"] == metric]
        return [value for one in every if one.get("phase") == phase for value in one["values"]]


def by_torchstone(program: Program, folder: Path, environment: dict[str, str], *how: str) -> Answer:
    """Return the answer of `torchstone run -- LINE`. Raises Absent where it has none."""
    with tempfile.TemporaryDirectory() as outputs:
        line = [sys.executable, "-m", "torchstone", "run", *program.options, "--quiet", "--json", *how]
        words = [*line, "--when-busy", "share", "--output-dir", outputs, "--", *typed(program.line)]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout.startswith("{"):
            raise Absent(last_line(done.stderr))
        (record,) = Path(outputs).glob("records/*.jsonl")
        lines = [json.loads(line) for line in record.read_text().splitlines()]
    trials = [line for line in lines if line["record"] == "trial"]
    (case,) = json.loads(done.stdout)["cases"]
    return Answer(case, [one for trial in trials for one in trial["measurements"]])


def by_hand(program: Program, place: Place, seconds: float, file: Path) -> dict[str, Any]:
    """Run the stamped copy by itself; return what its stamps say. Raises Absent."""
    environment = place.environment | {"BY_HAND": str(file), "BY_HAND_S": str(seconds)}
    shutil.rmtree(place.stamped / "finetuned", ignore_errors=True)  # which would be gone on with
    file.unlink(missing_ok=True)
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            typed(program.line),
            cwd=place.stamped,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        until_s = time.monotonic() + 180.0
        while process.poll() is None and not file.exists() and time.monotonic() < until_s:
            time.sleep(0.2)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(0)
        if not file.exists():
            raise Absent(last_line(said.read()))
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def steps_by_hand(found: dict[str, Any]) -> Iterator[tuple[float, float, dict[str, float]]]:
    """Yield begin, end and seconds by phase of each step between two ends; one with what is left out is none."""
    marks = found["marks"]
    spent: defaultdict[str, float] = defaultdict(float)
    stack: list[str] = []
    begin_s: float | None = None
    for (now_s, what), (before_s, _) in zip(marks, [marks[0], *marks], strict=False):
        spent[stack[-1] if stack else "rest"] += now_s - before_s
        if what is None:
            stack.pop()
        elif what != "|":
            stack.append(what)
        else:
            if begin_s is not None and "left out" not in spent:
                yield begin_s, now_s, dict(spent)
            begin_s, spent = now_s, defaultdict(float)


def steady_by_hand(found: dict[str, Any]) -> list[float]:
    """Return the steps after the third and half a second, as torchstone warms up."""
    steps = list(steps_by_hand(found))
    return [end_s - begin_s for begin_s, end_s, _ in steps[3:] if begin_s >= steps[0][0] + 0.5]


def phases(program: Program, place: Place, seconds: float, file: Path) -> dict[str, tuple[float, float]]:
    """Return step and phases by the hooks and by the stamps, in ms: medians of the same steps of the stamped copy."""
    environment = place.environment | {"BY_HAND": str(file), "BY_HAND_S": "1e9"}
    answer = by_torchstone(program, place.stamped, environment, *one_trial(seconds))
    found = json.loads(file.read_text())
    steps = [step for step in steps_by_hand(found) if step[0] >= found["window_s"]]
    by_hand_s = {name: median(spent.get(name, 0.0) for _, _, spent in steps) for name in PHASES}
    by_hand_s["step"] = median(end_s - begin_s for begin_s, end_s, _ in steps)
    ours_s = {name: answer.steady("phase_time_s", name) for name in PHASES} | {"step": answer.steady("step_time_s")}
    return {name: (1e3 * median(ours_s[name] or [0.0]), 1e3 * value) for name, value in by_hand_s.items() if value}


def one_trial(seconds: float) -> tuple[str, ...]:
    return "--trials", "1", "--budget", f"{seconds:g}s", "--disturbed", "keep"


def measure(row: dict[str, Any], name: str, options: argparse.Namespace, scratch: Path) -> Iterator[None]:
    """Measure what a program's row lacks yet, a part at a time. Raises Absent."""
    program = PROGRAMS[name]
    row |= {"line": f"torchstone run {' '.join((*program.options, '--', program.line))}", "note": program.note}
    row["revision"] = revision(options.projects / program.folder)
    place, file = prepared(program, name, options, scratch), scratch / "stamps.json"
    while len(row.setdefault("splits", [])) < options.splits:
        row["splits"].append(phases(program, place, options.seconds, file))
        yield
    while len(row.setdefault("answers", [])) < options.answers:
        began_s = time.monotonic()
        answer = by_torchstone(program, place.own, place.environment)
        about = {"minutes": (time.monotonic() - began_s) / 60, "step_s": answer.figure("step_time_mean")}
        row["answers"].append({**about, "verdict": answer.case["verdict"], "trials": len(answer.case["trials"])})
        yield
    while len(row.setdefault("pairs", [])) < options.pairs:
        pair: dict[str, float | None] = {}
        for arm in random.sample(("run", "by_hand"), 2):
            if arm == "run":
                one = by_torchstone(program, place.own, place.environment, *one_trial(options.seconds))
                pair |= {"run_s": one.figure("step_time_mean"), "rate": one.figure("throughput")}
            else:
                pair["by_hand_s"] = fmean(steady_by_hand(by_hand(program, place, options.seconds, file)))
        row["pairs"].append(pair)
        yield


def ratio(found: Sequence[float]) -> dict[str, float | None]:
    value, low, high, _ = over_trials(found)
    return {"value": value, "low": low, "high": high}


def revision(folder: Path) -> str:
    words = ["git", "-C", str(folder), "log", "-1", "--format=%h %cs"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def table(name: str, row: dict[str, Any]) -> str:
    if "absent" in row:
        return f"{name}: left out: {row['absent']}"
    lines = [f"{name}: {row['line']}"]
    lines += [f"  {one['minutes']:.1f} min, {one['verdict']}, {one['trials']} trials" for one in row.get("answers", ())]
    if len(pairs := row.get("pairs", ())) > 1:
        step = ratio([pair["run_s"] / pair["by_hand_s"] for pair in pairs])
        rates = [pair["rate"] * pair["by_hand_s"] / PROGRAMS[name].items for pair in pairs if pair["rate"] is not None]
        rate = ratio(rates) if rates else "not known"
        lines.append(f"  {len(pairs)} pairs of processes: step {step}, items/s {rate}")
    for phase in (*PHASES, "step"):
        if both := [split[phase] for split in row.get("splits", ()) if phase in split]:
            ours_ms, by_hand_ms = (fmean(one[side] for one in both) for side in (0, 1))
            good = abs(ours_ms - by_hand_ms) <= max(0.02 * by_hand_ms, 0.05)
            lines.append(f"  {'✓' if good else '✗'} {phase:<10} {ours_ms:9.3f} ms, by hand {by_hand_ms:9.3f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {' '.join(PROGRAMS)}")
    parser.add_argument("--projects", type=Path, required=True, help="a folder with the checkouts")
    parser.add_argument("--make", metavar="NAME", help="only make the data of this program")
    parser.add_argument("--libraries", nargs="*", default=[], metavar="NAME=FOLDER", help="libraries of one program")
    parser.add_argument("--splits", type=int, default=2, help="trials of the stamped copy, for phases")
    parser.add_argument("--answers", type=int, default=1, help="runs of the line as it is typed")
    parser.add_argument("--pairs", type=int, default=4, help="of a trial and the stamped copy by itself")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a window")
    options = parser.parse_args()
    options.projects = options.projects.resolve()
    if options.make:
        PROGRAMS[options.make].make(options.projects / PROGRAMS[options.make].folder)
        return
    if wrong := set(options.names) - PROGRAMS.keys():
        parser.error(f"{wrong.pop()}: there is no such program")
    for name in options.names or PROGRAMS:
        found: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
        row = found.pop(name, {})
        row.pop("absent", None)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            try:
                for _ in measure(row, name, options, Path(scratch)):
                    keep(name, row)
            except Absent as why:
                keep(name, {**row, "absent": str(why).replace(scratch, "…")})
        print(table(name, row if row.get("splits") else json.loads(DATA.read_text())[name]), flush=True)


def keep(name: str, row: dict[str, Any]) -> None:
    found = {
        **(json.loads(DATA.read_text()) if DATA.exists() else {}),
        name: {**row, "load_average": os.getloadavg()[0]},
    }
    DATA.write_text(json.dumps({key: found[key] for key in PROGRAMS if key in found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

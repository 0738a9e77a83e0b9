"""Whatever is wrong with a request: one clear line on stderr, exit 2, and nothing written."""

import json
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch

MLP = ("run", "--model", "builtin:mlp")
TEXT = ("run", "--model", "hf:bert-tiny", "--axis", "sequence_length=8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], ["command 'rnu'", "'run'", "export", "list"]),
        (["run", "smok"], ["recipe 'smok'", "'smoke'", "distilbert"]),
        (["run", "--model", "builtin:cn"], ["'cn'", "'cnn'", "mlp"]),
        (["run", "--model", "distilbrt"], ["'distilbrt'", "'distilbert'", "gpt2"]),
        (["run", "--model", "hf:gtp2"], ["'gtp2'", "'gpt2'", "bert-tiny"]),
        (["run", "--model", "bultin:cnn"], ["model source 'bultin'", "'builtin'", "hf, py"]),
        ([*MLP, "--axis", "batchsize=1"], ["axis 'batchsize'", "'batch_size'", "precision"]),
        ([*MLP, "--axis", "precision=bf61"], ["axis precision", "'bf61'", "'bf16'", "fp32"]),
        ([*MLP, "--axis", "sequence_length=8"], ["axis sequence_length", "image_size"]),
        ([*MLP, "--axis", "optimizer=sgd"], ["axis optimizer", "infer"]),
        ([*MLP, "--axis", "batch_size"], ["batch_size=1,8"]),
        ([*MLP, "--device", "cud"], ["device 'cud'", "'cuda'", "rocm"]),
        ([*MLP, "--device", "cuda:x"], ["cuda:x", "cuda:0, cuda:1"]),
        ([*MLP, "--device", "auto:1"], ["auto:1", "write auto"]),
        ([*MLP, "--task", "infr"], ["task 'infr'", "'infer'", "train"]),
        ([*MLP, "--data", "sintetic"], ["data source 'sintetic'", "'synthetic'", "digits"]),
        ([*TEXT, "--data", "digits"], ["digits is image", "takes text"]),
        ([*MLP, "--option", "wieghts=random"], ["'wieghts'", "'weights'"]),
        (["run", "smoke", "--trils", "3"], ["--trils", "--trials", "--help"]),
        (["list", "recipes", "preset-80gb-smal"], ["recipe 'preset-80gb-smal'", "'preset-80gb-small'"]),
        (["list", "models", "cnn"], ["only a recipe"]),
        (["list", "modles"], ["'modles'", "'models'", "axes"]),
        ([*MLP, "--batch-sizes", "0"], ["batch_size", "'0' is too small", "from 1 up"]),
        ([*MLP, "--batch-sizes=-1"], ["batch_size", "'-1' is too small"]),
        ([*MLP, "--axis", "batch_size=1.5"], ["batch_size", "'1.5' is not a whole number"]),
        ([*MLP, "--trials", "0"], ["--trials 0", "1 or more"]),
        ([*MLP, "--trials", "two"], ["--trials", "'two'"]),
        ([*MLP, "--iterations", "0"], ["--iterations 0", "1 or more"]),
        ([*MLP, "--target", "abc"], ["--target", "'abc'", "1%"]),
        ([*MLP, "--target", "200%"], ["--target", "not between 0 and 1"]),
        ([*MLP, "--budget", "-1"], ["--budget", "'-1'", "30s"]),
        ([*MLP, "--budget", "0"], ["--budget 0", "more than 0 s"]),
        ([*MLP, "--timeout", "0"], ["--timeout 0", "more than 0 s"]),
        ([*MLP, "--timeout", "5 fortnights"], ["--timeout", "5m or 1h"]),
        (["run", "smoke", "--config", "mine.yaml"], ["not both"]),
        (["run", "demo", "--model", "builtin:mlp"], ["a recipe's one model", "demo names hf:distilbert"]),
        (["run", "nothere.yaml"], ["nothere.yaml: no such file"]),
        (["run", "./nothere.xml"], ["'.xml'", ".toml"]),
        (["show"], ["no run is stored here yet", "torchstone run"]),
        (["show", "nosuchrun"], ["no run 'nosuchrun'", "torchstone runs"]),
        (["export", "--format", "xml"], ["format 'xml'", "csv, json, jsonl, mlflow, parquet"]),
        (["runs", "--limit", "-1"], ["--limit -1"]),
        (["import", "nothere"], ["nothere: No such file"]),
        (["run", "--model", "py:nothere.py:load"], ["'nothere.py'"]),
        (["run", "--model", "py:no_such_module.inner:load"], ["module 'no_such_module'"]),
        ([*TEXT, "--data", "tsv:nothere.tsv"], ["nothere.tsv: no such file"]),
        ([*MLP, "--data", "images:nothere"], ["nothere: no such file or folder"]),
        (["run", "--model", "hf:./nothere"], ["there is no folder nothere", "config.json", "model.safetensors"]),
    ],
    ids=lambda value: " ".join(value[:9]) if value and isinstance(value, list) else None,
)
def test_one_line_that_names_what_there_is(refused, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    line = refused(*words)
    for part in said:
        assert part in line


FILES = {
    "type.yaml": ("task: infer\nmodel: 3\n", "type.yaml:2:1: model: 3 is not a text"),
    "type.json": ('{"task": "infer",\n "model": "builtin:mlp", "axes": []}', "type.json:2:26: axes: must be a mapping"),
    "type.toml": ('task="infer"\nmodel="builtin:mlp"\n[procedure]\ntrials="two"\n', "type.toml:4:1: procedure.trials"),
    "key.yaml": ("task: infer\nmodle: builtin:mlp\n", "key.yaml:2:1: modle: unknown key. Did you mean 'model'?"),
    "key.json": ('{"task": "infer",\n"modle": "builtin:mlp"}', "key.json:2:1: modle: unknown key"),
    "key.toml": ('task="infer"\nmodel="builtin:mlp"\n[procedure]\ntrails=2\n', "key.toml:4:1: procedure.trails"),
    "twice.yaml": ("task: infer\nmodel: a\nmodel: b\n", "twice.yaml:3:1: model: duplicate key"),
    "twice.json": ('{"task": "infer", "model": "a",\n "model": "b"}', "twice.json:2:2: model: duplicate key"),
    "twice.toml": ('task="infer"\nmodel="a"\nmodel="b"\n', "twice.toml:3:"),
    "axis.yaml": ("task: infer\nmodel: builtin:mlp\naxes:\n  batchsize: 1\n", "axis.yaml:4:3: axes.batchsize"),
    "task.yaml": ("task: infr\nmodel: a\n", "task.yaml:1:1: task: unknown task 'infr'. Did you mean 'infer'?"),
    "device.yaml": ("task: infer\nmodel: builtin:mlp\ndevice: cud\n", "device.yaml:3:1: device: unknown device 'cud'"),
    "zero.yaml": ("task: infer\nmodel: a\naxes:\n  batch_size: [4, 0]\n", "axes.batch_size[1]: 0 is too small"),
    "less.json": ('{"task": "infer", "model": "a",\n"axes": {"batch_size": -1}}', "less.json:2:10: axes.batch_size"),
    "half.toml": ('task="infer"\nmodel="builtin:mlp"\n[axes]\nbatch_size=1.5\n', "half.toml:4:1: axes.batch_size: 1.5"),
    "torn.json": ('{"task": "infer",\n', "torn.json:2:1: not JSON"),
    "model.yaml": ("task: infer\nmodel: builtin:cn\n", "Did you mean 'cnn'?"),
    "data.yaml": ("task: infer\nmodel: builtin:mlp\ndata: sintetic\n", "Did you mean 'synthetic'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_run_file_is_refused_by_file_line_and_key(refused, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    text, said = FILES[name]
    Path(name).write_text(text)
    assert said in refused("run", name)


def test_a_device_that_is_not_here(refused):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    for word in ("cuda", "cuda:7"):
        line = refused(*MLP, "--device", word)
        assert f"device {word} not found: " in line
        assert "CUDA" in line
        assert "Found: cpu:0 " in line
    line = refused(*MLP, "--device", "cpu:1")
    assert "there are 1 of kind cpu. Found: cpu:0 " in line


def test_an_output_folder_that_is_none(refused, tmp_path):
    (tmp_path / "file").write_text("x")
    assert "is a file; name a folder" in refused(*MLP, "--output-dir", str(tmp_path / "file"))
    assert "is a file; name a folder" in refused(*MLP, "--output-dir", str(tmp_path / "file" / "inner"))
    if sys.platform == "linux":
        assert "cannot be written" in refused(*MLP, "--output-dir", "/proc/nope")


ROWS = {
    "empty": (b"", "empty.tsv: empty"),
    "binary": (bytes(range(128, 256)) * 20, "binary.tsv: row 1: not UTF-8"),
    "zeros": (bytes(2000), "zeros.tsv: row 1: has NUL bytes"),
    "ragged": (b"fine\t1\nno label\n", "ragged.tsv: row 2: has 1 column, not 2"),
    "word": (b"fine\t1\nfine\tgood\n", "word.tsv: row 2: the label 'good' is not a whole number"),
    "beyond": (b"fine\t1\nfine\t7\n", "8 classes"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_data_file_is_refused_with_its_row(refused, tmp_path, name):
    data, said = ROWS[name]
    (tmp_path / f"{name}.tsv").write_bytes(data)
    line = refused(*TEXT, "--option", "classes=2", "--data", f"tsv:{tmp_path}/{name}.tsv")
    assert said in line


def test_a_folder_of_images_without_images(refused, tmp_path):
    assert "an empty folder" in refused("run", "--model", "builtin:cnn", "--data", f"images:{tmp_path}")


TINY = {
    "model_type": "bert", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    "intermediate_size": 8, "max_position_embeddings": 32,
}  # fmt: skip


def test_a_model_folder_without_its_files(refused, tmp_path):
    assert f"no config.json in {tmp_path}" in refused("run", "--model", f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert f"no weights in {tmp_path}; looked for" in refused("run", "--model", f"hf:{tmp_path}")


class Code:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("form", ["zip", "plain"])
def test_a_checkpoint_with_code_in_it_is_refused_and_the_code_does_not_run(refused, tmp_path, form):
    folder, proof = tmp_path / "model", tmp_path / "the-code-ran"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    weights = folder / "pytorch_model.bin"
    if form == "zip":
        torch.save({"weight": Code(proof)}, weights)
    else:
        weights.write_bytes(pickle.dumps({"weight": Code(proof)}, protocol=2))
    line = refused("run", "--model", f"hf:{folder}", "--axis", "sequence_length=8")
    assert f"{weights}: refused" in line
    assert "system" in line
    assert not proof.exists()
    pickle.loads(pickle.dumps(Code(proof)))
    assert proof.exists(), "the proof itself works"


MINE = """
import torch
def fails():
    return helper()
def helper():
    raise KeyError("nope")
def three():
    return 3
def bare():
    return torch.nn.Linear(1, 1)
class Net(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("in forward")
def bad_forward():
    return Net(), torch.zeros(2, 3)
load = 7
globals()["later"] = lambda hidden: None
"""


@pytest.mark.parametrize(
    ("function", "said", "lines"),
    [
        ("fails", ["raised KeyError: 'nope'", "in fails: return helper()", 'raise KeyError("nope")'], 3),
        ("three", ["not a torch.nn.Module", "return (module, example)"], 1),
        ("bare", ["without an example batch", "return (module, example)"], 1),
        ("bad_forward", ["raised RuntimeError: in forward", "mine.py", "line 13, in forward"], 4),
        ("halper", ["function 'halper'. Did you mean 'helper'?"], 1),
        ("later_too", ["function 'later_too'. Did you mean 'later'?", "Known: bad_forward, bare, fails, helper,"], 1),
        ("later", ["later needs hidden: --option hidden=…"], 1),
        ("load", ["load is int, not a function"], 1),
    ],
)
def test_a_function_of_the_users_that_is_wrong(refused, tmp_path, function, said, lines):
    (tmp_path / "mine.py").write_text(MINE)
    line = refused("run", "--model", f"py:{tmp_path}/mine.py:{function}", lines=lines)
    for part in said:
        assert part in line
    assert "site-packages" not in line
    assert "torchstone/worker" not in line


def test_a_file_of_the_users_that_does_not_import(refused, tmp_path):
    (tmp_path / "mine.py").write_text("import no_such_library\ndef load(): pass\n")
    line = refused("run", "--model", f"py:{tmp_path}/mine.py:load", lines=2)
    assert "No module named 'no_such_library'" in line
    assert "mine.py:1 in <module>: import no_such_library" in line
    (tmp_path / "mine.py").write_text("def load(:\n")
    assert "mine.py:1: invalid syntax" in refused("run", "--model", f"py:{tmp_path}/mine.py:load")


@pytest.mark.parametrize("words", ["show", "check", "import", "export", "verify", "reproduce", "report"])
def test_a_file_whose_read_fails_is_one_line(refused, words):
    """As on a bad disk, or a network file system that went away: it opens, and reading it is an error (EIO)."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("needs /proc/self/mem, whose read at 0 fails")
    assert "Input/output error" in refused(*words.split(), "/proc/self/mem")

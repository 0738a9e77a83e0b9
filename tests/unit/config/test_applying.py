"""Only the characters of the values change: every other byte of the user's file is the user's."""

import json
import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from torchstone.config.applying import check_target, diff_text, plan_changes, present_settings, write
from torchstone.config.run_file import read_request
from torchstone.config.source import read_file
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.execution import plan

TUNED: dict[str, Scalar] = {
    "batch_size": 64, "num_workers": 4, "pin_memory": True, "precision": "bf16", "learning_rate": 2.5e-5,
    "grad_accumulation": 1, "compile": "off",
}  # fmt: skip


def file(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def applied(path: Path, tuned=TUNED, **how) -> str:
    """The text after applying, which must have worked."""
    before = path.read_bytes()
    changes = plan_changes(path, tuned, **how)
    assert changes.problems == ()
    backup = write(changes)
    assert backup is not None
    assert backup.read_bytes() == before
    return path.read_bytes().decode()


def refused(path: Path, tuned=TUNED, **how) -> str:
    """The line that says why nothing was written."""
    before = {p: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
    changes = plan_changes(path, tuned, **how)
    with pytest.raises(UsageError) as fault:
        write(changes)
    assert {p: p.read_bytes() for p in path.parent.iterdir() if p.is_file()} == before
    assert "\n" not in str(fault.value)
    return str(fault.value)


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────

SEED = """# my config
data:
  batch_size: 4096      # or 8192
  num_workers: 12
  pin_memory: false

training:
  use_amp: false        # must
  learning_rate: 0.0003 # sqrt rule
  gradient_accumulation_steps: 4  # Effective: 1024
"""


def test_the_seeds_own_config_keeps_everything_but_the_values(tmp_path):
    after = applied(file(tmp_path, "c.yaml", SEED))
    expected = SEED.replace(" 4096", " 64").replace(" 12\n", " 4\n").replace("pin_memory: false", "pin_memory: true")
    expected = expected.replace("use_amp: false", "use_amp: true").replace("0.0003", "2.5e-05")
    assert after == expected.replace("steps: 4 ", "steps: 1 ")


CASES: dict[str, Any] = {
    "windows": (b"\xef\xbb\xbfbatch_size: 8\r\nlr: 1\r\n", {"batch_size": 64},
                b"\xef\xbb\xbfbatch_size: 64\r\nlr: 1\r\n"),
    "no newline at the end": ("batch_size: 8", {"batch_size": 64}, "batch_size: 64"),
    "quotes": ("batch_size: '8'\nlr: \"1\"", {"batch_size": 64, "learning_rate": 0.5}, "batch_size: '64'\nlr: \"0.5\""),
    "capitals": ("pin_memory: False\nAMP: TRUE", {"pin_memory": True, "precision": "fp32"},
                 "pin_memory: True\nAMP: FALSE"),
    "words of truth": ("pin_memory: no # x\nuse_amp: 0", {"pin_memory": True, "precision": "fp16"},
                       "pin_memory: yes # x\nuse_amp: 1"),
    "an anchor stays": ("a: {batch_size: &b 8}", {"batch_size": 64}, "a: {batch_size: &b 64}"),
    "an alias is its own value now": ("x: &b 8\nbatch_size: *b", {"batch_size": 64}, "x: &b 8\nbatch_size: 64"),
    "nothing there": ("batch_size: # how many\nlr:", {"batch_size": 64, "learning_rate": 0.5},
                      "batch_size: 64 # how many\nlr: 0.5"),
    "numbers as keys": ("labels: {0: cat}\nbatch-size: 8", {"batch_size": 64}, "labels: {0: cat}\nbatch-size: 64"),
    "auto": ("batch_size: auto", {"batch_size": 64}, "batch_size: 64"),
    "Lightning": ("precision: 32\naccumulate_grad_batches: 2", {"precision": "bf16", "grad_accumulation": 4},
                  "precision: bf16-mixed\naccumulate_grad_batches: 4"),
    "Lightning, back": ("precision: bf16-mixed", {"precision": "fp32"}, 'precision: "32-true"'),
    "accelerate": ("mixed_precision: 'no'", {"precision": "bf16"}, "mixed_precision: 'bf16'"),
    "accelerate, back": ("mixed_precision: bf16", {"precision": "fp32"}, 'mixed_precision: "no"'),
    "TF32 is a switch of its own": ("amp: true\nallow_tf32: false", {"precision": "tf32"},
                                    "amp: false\nallow_tf32: true"),
    "compile": ("compile: false\ncompile_mode: default", {"compile": "max-autotune"},
                "compile: true\ncompile_mode: max-autotune"),
    "folded texts and lists elsewhere": ("a: |\n  batch_size: 1\nb:\n- batch_size\n- {batch_size: 8}\n",
                                         {"batch_size": 64},
                                         "a: |\n  batch_size: 1\nb:\n- batch_size\n- {batch_size: 64}\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_yaml_in_the_users_own_way_of_writing(tmp_path, name):
    before, tuned, after = CASES[name]
    assert applied(file(tmp_path, "c.yaml", before), tuned) == (after if isinstance(after, str) else after.decode())


def test_hugging_face_words_in_json(tmp_path):
    text = (
        '{\n\t"per_device_train_batch_size":8, "per_device_eval_batch_size": 8,\n\t"fp16": true,   "bf16": false,\n'
        '\t"learning_rate": 5e-5, "dataloader_num_workers": 0, "gradient_accumulation_steps": 1,\n'
        '\t"torch_compile": true, "torch_compile_mode": null}\n'
    )
    after = applied(file(tmp_path, "c.json", text), {**TUNED, "compile": "reduce-overhead"})
    # What is not said of pinning: TrainingArguments pins.
    assert after == text.replace('size":8', 'size":64').replace("true,   ", "false,   ").replace(
        '"bf16": false', '"bf16": true'
    ).replace("5e-5", "2.5e-05").replace('workers": 0', 'workers": 4').replace("null", '"reduce-overhead"')
    assert "no key for pin_memory" in refused(file(tmp_path, "d.json", text), {"pin_memory": False})


def test_toml_of_every_shape(tmp_path):
    text = (
        '# top\nname = """\n[batch]\nbatch_size = 1"""  # not this\nloader = { "num_workers" = 0, pin_mem = false }\r\n'
        "[train.'a.b']  # table\nbatch_size=8# tight\n  optim.lr = 1e-3\n[[runs]]\nwhen = 1979-05-27 07:32:00\n"
        "sizes = [1, # one\n 2]\n[[runs]]\nprecision = '32-true'\n"
    )
    after = applied(file(tmp_path, "c.toml", text))
    assert after == (
        text.replace("size=8", "size=64").replace('workers" = 0', 'workers" = 4').replace("mem = false", "mem = true")
        .replace("1e-3", "2.5e-05").replace("32-true", "bf16-mixed")
    )  # fmt: skip


def test_nothing_to_change_writes_nothing(tmp_path):
    path = file(
        tmp_path, "c.yaml", "data: {batch_size: 64, workers: 4}\nuse_amp: true\nlr: 2.50e-5\npin_memory: true\n"
    )
    changes = plan_changes(path, TUNED)
    assert (diff_text(changes), changes.problems, write(changes)) == ("", (), None)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {batch_size: 8}\nb: {batch_size: 9}", "batch_size is in several places (a.batch_size = 8, b."),
        ("a: &d {batch_size: 8}\nb:\n  <<: *d", "several places (a.batch_size = 8, b.batch_size = 8)"),
        ("batch_size: &b 8\neval: *b", "eval would change as well"),
        ("batch_size: ${size}", "batch_size is '${size}', not a number"),
        ("batch_size: [8, 16]", "batch_size is a list"),
        ("batch_size: true", "batch_size is True, not a number"),
        ("batch_size: 2020-01-02", "not a number"),
        ("batch_size: >\n  8\n", "batch_size comes from an anchor elsewhere in the file, or is a folded text"),
        ("name: x", "no key for batch_size (batch_size, per_device_train_batch_size, per_gpu_train_batch_size)"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_apart_is_not_written(tmp_path, text, said):
    line = refused(file(tmp_path, "c.yaml", text), {"batch_size": 64})
    assert "c.yaml: nothing written: " in line
    assert said in line


def test_the_rank_of_adapters_goes_to_its_key_and_without_them_no_rank_is_right(tmp_path):
    peft = file(tmp_path, "peft.yaml", "optim: adamw\nlora_r: 16  # peft\nlora_alpha: 32\n")
    assert present_settings(peft)["lora"] == 16
    assert "lora_r" in refused(peft, {"lora": 0})
    assert applied(peft, {"lora": 8}) == "optim: adamw\nlora_r: 8  # peft\nlora_alpha: 32\n"
    plain = file(tmp_path, "plain.yaml", "lr: 0.1\n")
    assert "no key for lora (lora_r, lora_rank, lora)" in refused(plain, {"lora": 8})
    assert plan_changes(plain, {"lora": 0}).problems == ()
    own = file(tmp_path, "own.yaml", "task: train\nmodel: builtin:text-small\naxes: {batch_size: 8}\n")
    applied(own, {"lora": 4})
    assert read_request(read_file(own)).workloads[0].axes["lora"] == (4,)


def test_a_file_whose_keys_do_not_match_gets_a_diff_of_what_it_would_need(tmp_path):
    path = file(tmp_path, "c.yaml", "data:\n  batch_size: 8 # b\ntraining:\n  epochs: 3\n")
    changes = plan_changes(path, {"batch_size": 64, "num_workers": 4, "learning_rate": 1e-3})
    assert diff_text(changes).splitlines() == [
        f"--- {path}", f"+++ {path} (tuned)", "@@ -1,4 +1,6 @@", " data:", "-  batch_size: 8 # b",
        "+  batch_size: 64 # b", "+  num_workers: 4", "+  learning_rate: 0.001", " training:", "   epochs: 3",
    ]  # fmt: skip
    assert "no key for num_workers (num_workers, dataloader_num_workers" in refused(path, {"num_workers": 4})


# ── run files of torchstone ──────────────────────────────────────────────────────────────────────────────────

RUN_FILES = {
    "flat.yaml": "task: train\nmodel: builtin:cnn # mine\naxes:\n  batch_size: # sizes\n    - 8   # small\n    - 32\n"
    "    - 128 # big\n  precision:\n  - fp32\n  - bf16\n  num_workers: [0, # none\n   2, 4]\n  compile: off\n",
    "no-axes.yaml": "task: train\nmodel: builtin:cnn\nprocedure: {trials: 2}\n",
    "empty.yaml": "task: train\naxes:\nmodel: builtin:cnn\n",
    "two.yaml": "workloads:\n  - {task: infer, model: builtin:cnn, axes: {batch_size: [1, 2]}}\n"
    "  - task: train\n    model: builtin:cnn\n    axes: {batch_size: [1, 2]} # both\n",
    "flat.toml": 'task = "train"\nmodel = "builtin:cnn"\n[axes]\nbatch_size = [\n  8, # small\n  32, # big\n]\n',
    "no-axes.toml": 'task = "train"\nmodel = "builtin:cnn"\n[procedure]\ntrials = 2\n',
    "empty.toml": '[[workloads]]\ntask = "train"\nmodel = "builtin:cnn"\n[workloads.axes]\n# none yet\n',
    "flat.json": '{"task": "train",\n "model": "builtin:cnn",\n "axes": {\n  "batch_size": [8, 32],\n  '
    '"precision": "fp32"\n }}\n',
    "empty.json": '{"task": "train", "model": "builtin:cnn", "axes": {}}',
    "seed.json": '{"batch_sizes": [1, 2], "model_families": {"cv": ["vit-tiny"]}, "mixed_precision": true, '
    '"learning_rates": [1e-3, 1e-4], "training_iterations": 3}',
}  # fmt: skip


@pytest.mark.parametrize("name", RUN_FILES)
def test_a_run_file_then_asks_for_one_configuration(tmp_path, name):
    text = RUN_FILES[name]
    path = file(tmp_path, name, text)
    after = applied(path)
    assert re.findall("# [a-z ]+", after) == re.findall("# [a-z ]+", text)
    workload = read_request(read_file(path)).workloads[-1]
    sketch = plan.sketch(workload)
    (configuration,) = sketch.configurations
    assert {name: configuration[name] for name in TUNED} == TUNED
    assert write(plan_changes(path, TUNED)) is None


def test_comments_inside_a_list_stay_where_their_values_go(tmp_path):
    after = applied(file(tmp_path, "flat.yaml", RUN_FILES["flat.yaml"]))
    assert "  batch_size: # sizes\n    - 64   # small\n    # big\n  precision: bf16\n" in after
    assert "num_workers: [4 # none\n" in after


def test_the_workload_of_the_task_gets_the_settings(tmp_path):
    path = file(tmp_path, "two.yaml", RUN_FILES["two.yaml"])
    assert "axes: {batch_size: 64}}" in applied(path, {"batch_size": 64}, task="infer")
    path.write_text(RUN_FILES["two.yaml"].replace("infer", "train"))
    assert "2 workloads" in refused(path, {"batch_size": 64})


# ── the property ─────────────────────────────────────────────────────────────────────────────────────────────

Old, New = 0, 1
VALUES = {
    "batch_size": ("8", "64"), "learning_rate": ("1e-3", "2.5e-05"), "pin_memory": ("false", "true"),
    "num_workers": ("0", "4"),
}  # fmt: skip
SCALARS = {
    ".yaml": ("1", "1.5", "true", "word", "'a # b'", '"x: y"', "~", "", "[1, 'a, b']", "{q: 1, r: [2]}", "&n 3",
              "2020-01-02"),
    ".json": ("1", "-2.5e3", "true", "null", '"a, \\"b\\": {"', "[]", "{}", '[1, {"q": [2]}]'),
    ".toml": ("1", "1_0", "1.5", "true", "'a # b'", '"x = [y"', '"""\n[a]\nb = 1\n"""', "[1, # c\n 2]",
              "{q = 1, r.s = [2]}", "1979-05-27 07:32:00", "inf"),
}  # fmt: skip


@st.composite
def texts(draw, suffix):
    """A small file as the pieces of its text: what stays as it is, and (old, new) where a setting's value stands."""
    names = iter(f"{draw(st.sampled_from('abc'))}{number}" for number in range(100))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    settings_left = draw(st.permutations(list(VALUES)))[: draw(st.integers(1, len(VALUES)))]
    count = iter(range(1000))
    sections = draw(st.integers(1, 3))
    shared = {n: [s for i, s in enumerate(settings_left) if i % sections == n] for n in range(sections)}

    def entries(section):
        keys = [*shared[section], *(next(names) for _ in range(draw(st.integers(0, 3))))]
        for key in draw(st.permutations(keys)):
            yield key, VALUES[key] if key in VALUES else draw(st.sampled_from(SCALARS[suffix])).replace("&n", f"&{key}")

    def comment():
        return draw(st.sampled_from(["", "  ", f" # note {next(count)}", f" # batch_size: {next(count)}"]))

    pieces = []
    if suffix == ".json":
        gap = draw(st.sampled_from(["", " ", "\n", "\n\t"]))
        colon = draw(st.sampled_from([":", ": ", " : "]))
        for n in range(sections):
            pieces += ["," if n else "{", gap, f'"s{n}"', colon, "{"]
            for place, (key, value) in enumerate(entries(n)):
                pieces += ["," if place else "", gap, f'"{key}"', colon, value]
            pieces += [gap, "}"]
        pieces += [gap, "}", end]
    for n in range(sections if suffix != ".json" else 0):
        flow = suffix == ".yaml" and draw(st.booleans())
        inner = list(entries(n))
        if suffix == ".toml":
            pieces += [f"# head {n}{end}[s{n}]{comment()}{end}"]
        elif flow:
            inner = [(key, value or "5") for key, value in inner]
            pieces += [f"s{n}: {{"]
        else:
            pieces += [f"s{n}:{comment()}{end}"]
        for place, (key, value) in enumerate(inner):
            lead = (", " if place else "") if flow else "  " if suffix == ".yaml" else ""
            pieces += [lead, key, " = " if suffix == ".toml" else ": ", value, "" if flow else comment() + end]
        pieces += [f"}}{comment()}{end}"] if flow else [draw(st.sampled_from(["", end, f"# tail{end}"]))]
    if pieces[-1] == end and draw(st.booleans()):
        pieces.pop()
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return [bom, *pieces], settings_left


def parsed(suffix, text):
    text = text.removeprefix("\ufeff")
    readers: dict[str, Any] = {
        ".yaml": YAML(typ="safe", pure=True).load, ".json": json.loads, ".toml": tomllib.loads,
    }  # fmt: skip
    return readers[suffix](text)


@pytest.mark.parametrize("suffix", SCALARS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_the_characters_of_the_values_change(tmp_path, suffix, data):
    pieces, names = data.draw(texts(suffix))
    before, after = ("".join(p if isinstance(p, str) else p[side] for p in pieces) for side in (Old, New))
    path = file(tmp_path, f"c{suffix}", before)
    changes = plan_changes(path, {name: parsed(".yaml", VALUES[name][New]) for name in names})
    assert changes.problems == ()
    assert changes.after.decode() == after
    assert repr(parsed(suffix, changes.after.decode())) == repr(parsed(suffix, after))


@pytest.mark.parametrize("suffix", SCALARS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_key_that_is_shown_as_missing_would_be_all_that_is_new(tmp_path, suffix, data):
    pieces, names = data.draw(texts(suffix))
    before = "".join(p if isinstance(p, str) else p[Old] for p in pieces)
    path = file(tmp_path, f"c{suffix}", before)
    changes = plan_changes(path, {"seeing": 3, names[0]: parsed(".yaml", VALUES[names[0]][New])})
    assert [problem[:18] for problem in changes.problems] == ["no key for seeing "]
    old, new = parsed(suffix, before), parsed(suffix, changes.after.decode())
    (home,) = [value for value in [new, *new.values()] if "seeing" in (value or ())]
    assert home.pop("seeing") == 3
    section = next(name for name, value in old.items() if names[0] in (value or ()))
    new[section][names[0]] = old[section][names[0]]
    assert repr(new) == repr(old)
    assert re.findall("# [a-z_: ]+[0-9]*", changes.after.decode()) == re.findall("# [a-z_: ]+[0-9]*", before)


# ── files that are not to be touched ─────────────────────────────────────────────────────────────────────────


def line_of(path: Path) -> str:
    with pytest.raises(UsageError) as fault:
        check_target(path)
    assert "\n" not in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.yaml", "a: 1\na: 2\n", "c.yaml:2:1: a: duplicate key"),
        ("c.json", '{"a": 1,\n "a": 2}', "c.json:2:2: a: duplicate key"),
        ("c.toml", "a = 1\na = 2\n", "c.toml:2:"),
        ("c.yaml", "a: [1\nb: 2", "c.yaml:2:2: not YAML"),
        ("c.yaml", "a: !include b.yaml", "c.yaml:1:4: not YAML"),
        ("c.json", "{", "c.json:1:2: not JSON"),
        ("c.json", '{"a":' * 50_000, "nested too deeply"),
        ("c.toml", "a = \n", "c.toml:1:5: not TOML"),
        ("c.yaml", b"a: \xff", "c.yaml:1:1: not UTF-8 text"),
        ("c.yaml", "- 1", "must contain a mapping"),
        ("c.yaml", "", "must contain a mapping"),
        ("c.ini", "a=1", "unknown kind of file '.ini'"),
        ("c.yaml", "a: " + "x" * 2**20, "too large"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_with_its_place(tmp_path, name, text, said):
    assert said in line_of(file(tmp_path, name, text))


def test_what_is_not_a_plain_file_is_refused(tmp_path):
    assert "No such file" in line_of(tmp_path / "nothere.yaml")
    (tmp_path / "folder.yaml").mkdir()
    assert "is a folder" in line_of(tmp_path / "folder.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a file" in line_of(tmp_path / "pipe.yaml")
    target = file(tmp_path, "real.yaml", "batch_size: 8")
    (tmp_path / "link.yaml").symlink_to(target)
    assert f"name the file itself, {target}" in line_of(tmp_path / "link.yaml")


def test_a_file_or_folder_that_may_not_be_written_is_refused_even_to_root(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    path = file(folder, "c.yaml", "batch_size: 8")
    path.chmod(0o444)
    assert "c.yaml is read-only: chmod u+w" in line_of(path)
    path.chmod(0o644)
    folder.chmod(0o555)
    try:
        assert f"{folder} is read-only" in line_of(path)
    finally:
        folder.chmod(0o755)


def test_a_folder_that_turns_out_not_to_take_files_is_refused(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert "cannot be written (No space left on device)" in line_of(file(tmp_path, "c.yaml", "a: 1"))


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_backups_are_numbered_and_mode_and_owner_stay(tmp_path):
    path = file(tmp_path, "c.yaml", "batch_size: 8")
    path.chmod(0o640)
    owner = (path.stat().st_uid, path.stat().st_gid)
    for size, name in ((16, "c.yaml.bak"), (32, "c.yaml.bak.1"), (64, "c.yaml.bak.2")):
        before = path.read_text()
        backup = write(plan_changes(path, {"batch_size": size}))
        assert backup is not None
        assert backup == tmp_path / name
        assert backup.read_text() == before
        assert backup.stat().st_mode == path.stat().st_mode
    assert path.stat().st_mode & 0o777 == 0o640
    assert (path.stat().st_uid, path.stat().st_gid) == owner
    assert path.read_text() == "batch_size: 64"
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_that_was_changed_meanwhile_is_left_alone(tmp_path):
    path = file(tmp_path, "c.yaml", "batch_size: 8")
    changes = plan_changes(path, {"batch_size": 64})
    path.write_text("batch_size: 9")
    with pytest.raises(UsageError, match="changed meanwhile"):
        write(changes)
    assert path.read_text() == "batch_size: 9"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("at", ["temporary", "backup"])
def test_a_full_disk_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path, monkeypatch, at):
    path = file(tmp_path, "c.yaml", "batch_size: 8")
    changes = plan_changes(path, {"batch_size": 64})
    calls = iter([at == "temporary", at == "backup"])

    def full(_):
        if next(calls):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TorchstoneError, match="not changed: No space left on device"):
        write(changes)
    assert path.read_text() == "batch_size: 8"
    assert list(tmp_path.iterdir()) == [path]


def test_a_switch_of_ours_is_true_or_false_in_a_script(tmp_path):
    path = file(tmp_path, "c.yaml", "channels_last: false\n")
    assert applied(path, {"channels_last": "on"}) == "channels_last: true\n"
    assert applied(path, {"channels_last": "off"}) == "channels_last: false\n"


def said(tmp_path, text, name="train.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return present_settings(path)


def test_the_seeds_own_config(tmp_path):
    data = "data:\n  batch_size: 64\n  num_workers: 4\n  pin_memory: true\n"
    assert said(tmp_path, data + "training:\n  use_amp: true\n  learning_rate: 3e-4\n") == {
        "batch_size": 64, "num_workers": 4, "pin_memory": True, "precision": "bf16", "learning_rate": 3e-4,
    }  # fmt: skip


def test_words_of_other_libraries(tmp_path):
    text = '{"per_device_train_batch_size": 8, "dataloader_num_workers": 2, "torch_compile": false}'
    assert said(tmp_path, text, "args.json") == {"batch_size": 8, "num_workers": 2, "compile": "off"}
    assert said(tmp_path, "precision = 'bf16-mixed'\naccumulate_grad_batches = 4\n", "run.toml") == {
        "precision": "bf16", "grad_accumulation": 4,
    }  # fmt: skip


def test_what_is_not_certain_is_left_out(tmp_path):
    assert said(tmp_path, "train:\n  batch_size: 8\neval:\n  batch_size: 32\n") == {}
    assert said(tmp_path, "batch_size: auto\nprecision: 8-bit\nnum_workers: [1, 2]\nlr:\n") == {}


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path):
    link = tmp_path / "link.yaml"
    (tmp_path / "real.yaml").write_text("batch_size: 8\n")
    link.symlink_to(tmp_path / "real.yaml")
    with pytest.raises(UsageError, match="is a symbolic link: name the file itself"):
        present_settings(link)

import pytest

from torchstone.config.current_settings import present_settings
from torchstone.core.errors import UsageError


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

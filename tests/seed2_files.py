"""The files of seed S2's user: the printed ones under the document's names, an .h5, and a model that runs out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PRINTED = Path(__file__).parent / "acceptance" / "printed"
CONFIG = "configs/checking_gpu_optimization.yaml"
DEFAULT = "configs/default.yaml"
MAKER = Path(__file__).parents[1] / "examples" / "make_h5.py"
HUNGRY = """
import time

import torch


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        time.sleep(0.003)
        return torch.ones(8) * index, index % 2


def loss(output, target):
    if len(target) >= 16:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 27.85 GiB")
    return torch.nn.functional.cross_entropy(output, target)


def load():
    torch.manual_seed(0)
    return torch.nn.Linear(8, 2), Items(), loss
"""


def laid_out(folder: Path, *, default: str = "s2_preset_80gb_large.yaml", items: int = 200) -> None:
    """Put the files into a folder: data.h5 has sequences of 32 positions, eight tenths of them to train on."""
    (folder / "configs").mkdir()
    for name, printed in ((CONFIG, "s2_checking_gpu_optimization.yaml"), (DEFAULT, default)):
        (folder / name).write_bytes((PRINTED / printed).read_bytes())
    words = [sys.executable, str(MAKER), str(folder / "data.h5"), "--items", str(items), "--length", "32"]
    subprocess.run(words, check=True, timeout=60)
    (folder / "hungry.py").write_text(HUNGRY, encoding="utf-8")

"""SST-2 as GLUE hands it out, in a few sentences: the same words tell the classes apart in every split."""

from __future__ import annotations

from pathlib import Path

GOOD, BAD = ("fine", "warm", "clever", "lovely"), ("dull", "flat", "silly", "dreary")
SIZES = {"train": 64, "dev": 16, "test": 8}


def write_glue(folder: Path) -> None:
    """Write train.tsv and dev.tsv (sentence, label), and test.tsv (index, sentence: GLUE keeps its labels)."""
    folder.mkdir(parents=True)
    for name, size in SIZES.items():
        if name == "test":
            lines = ["index\tsentence", *(f"{n}\t{sentence(n)}" for n in range(size))]
        else:
            lines = ["sentence\tlabel", *(f"{sentence(n)} \t{n % 2}" for n in range(size))]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def sentence(number: int) -> str:
    """Return a sentence of the class number % 2."""
    words = GOOD if number % 2 else BAD
    return f"a {words[number // 2 % 4]} and {words[number // 8 % 4]} film about number {number}"

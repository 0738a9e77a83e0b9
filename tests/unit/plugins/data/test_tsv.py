import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import transformers

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry
from torchstone.plugins.data import _table

TSV: Any = registry.load("data", "tsv")
SPEC = InputSpec("text", classes=2, vocabulary=200)
REAL = (
    Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[5] / "shared" / "data") / "sst2" / "dev.tsv"
)


def written(folder: Path, content: bytes) -> str:
    (folder / "rows.tsv").write_bytes(content)
    return str(folder / "rows.tsv")


@pytest.mark.parametrize(
    ("content", "items", "classes"),
    [
        (b"good\t1\nbad\t0", 2, 2),
        (b"good\t1\nbad\t0\n", 2, 2),
        (b"sentence\tlabel\r\ngood\t2\r\n", 1, 3),
        (b"\xef\xbb\xbfsentence\tlabel\ngood\t0\n", 1, 1),
        ('"quoted", “so”\t1\n'.encode(), 1, 2),
    ],
)
def test_sound_files(tmp_path: Path, content: bytes, items: int, classes: int) -> None:
    card = TSV.card(written(tmp_path, content), {})
    assert (card.kind, card.items, card.classes) == ("text", items, classes)
    assert card.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"sentence\tlabel\n", "has no rows"),
        (b"good\t1\nbad\n", "row 2: has 1 column, not 2"),
        (b"good\t1\nbad\t0\textra\n", "row 2: has 3 columns, not 2"),
        (b"good\t1\n\nbad\t0\n", "row 2: has 1 column"),
        (b"good\tyes\n", "row 1: the label 'yes' is not a whole number"),
        (b"good\t1\nbad\t0.5\n", "row 2: the label '0.5'"),
        (b"good\t1\nbad\t\xc2\xb2\n", "row 2: the label"),
        (b"good\t1\nbad\t-1\n", "row 2: the label -1 is negative"),
        (b"good\t12345678\n", "row 1: the label 12345678 is too large"),
        (b"good\t" + b"1" * 5000 + b"\n", "row 1: the label"),
        (b"\t1\n", "row 1: has no text"),
        (b"go\0od\t1\n", "row 1: has NUL bytes"),
        (b"fine\t1\n\xff\xfe\t1\n", "row 2: not UTF-8"),
        (b"x" * (2 << 20) + b"\t1\n", "row 1: longer than"),
    ],
)
def test_unsound_files_are_named_with_their_row(tmp_path: Path, content: bytes, says: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UsageError, match=f"{path}: {says}") as caught:
        TSV.card(path, {})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        ("", "name the file"),
        (tmp_path, "a folder"),
        (tmp_path / "no", "no such"),
        (tmp_path / "pipe", "not a regular"),
    ):
        with pytest.raises(UsageError, match=says):
            TSV.card(str(path), {})


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.tsv").open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(UsageError, match="more than the limit of 1073741824"):
        TSV.card(str(tmp_path / "huge.tsv"), {})


def test_a_label_beyond_the_models_classes_names_its_row(tmp_path: Path) -> None:
    path = written(tmp_path, b"good\t1\nodd\t2\n")
    with pytest.raises(UsageError, match=r"row 2: label 2, but the model has 2 classes, 0 to 1; .* classes=3"):
        TSV.samples(path, View(SPEC, {"sequence_length": 8}))


def test_items_are_padded_cut_and_marked(tmp_path: Path) -> None:
    path = written(tmp_path, b"good\t1\n" + b"a very long sentence of so many words that it is cut\t0\n")
    samples = TSV.samples(path, View(SPEC, {"sequence_length": 8}))
    short, long = samples[0], samples[1]
    assert short["input_ids"][0] == 2
    assert short["attention_mask"].sum() < 8
    assert not short["input_ids"][short["attention_mask"] == 0].any()
    assert long["attention_mask"].sum() == 8
    assert long["input_ids"][-1] == 3
    assert [int(s["labels"]) for s in (short, long)] == [1, 0]
    assert pickle.loads(pickle.dumps(samples))[1]["input_ids"].equal(long["input_ids"])


def test_a_causal_model_gets_no_labels(tmp_path: Path) -> None:
    path = written(tmp_path, b"good\t7\n")
    spec = InputSpec("text", vocabulary=200, causal=True)
    assert set(TSV.samples(path, View(spec, {"sequence_length": 8}))[0]) == {"input_ids", "attention_mask"}


def test_the_models_tokenizer_goes_first(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    tokenizer = transformers.BertTokenizer(vocab={word: n for n, word in enumerate(words)})
    samples = TSV.samples(written(tmp_path, b"good good\t1\n"), View(SPEC, {"sequence_length": 6}, tokenizer))
    assert samples[0]["input_ids"].tolist() == [2, 5, 5, 3, 0, 0]


@pytest.mark.parametrize("vocabulary", [6, 40, 1000, 8000])
def test_the_same_text_makes_the_same_tokenizer(vocabulary: int) -> None:
    text = [f"word{n % 97} and {n} α β ß 漢字 {chr(0x400 + n % 200)}" for n in range(500)]
    first, second = (_table.trained(text, vocabulary).get_vocab() for _ in range(2))
    assert first == second
    assert len(first) <= vocabulary
    assert sorted(first.values()) == list(range(len(first)))


@pytest.mark.skipif(not REAL.is_file(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")
def test_sst2() -> None:
    card = TSV.card(str(REAL), {})
    assert (card.items, card.classes) == (872, 2)
    samples = TSV.samples(str(REAL), View(InputSpec("text", classes=2, vocabulary=8000), {"sequence_length": 64}))
    unknown = sum(int((samples[n]["input_ids"] == 1).sum()) for n in range(0, 872, 20))
    assert unknown == 0

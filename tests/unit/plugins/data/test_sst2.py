import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry

SST2: Any = registry.load("data", "sst2")
SPEC = InputSpec("text", classes=2, vocabulary=200)
REAL = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[5] / "shared" / "data") / "sst2"
SIZES = {"train": 3, "validation": 1, "test": 2}


def plain(folder: Path) -> None:
    (folder / "train.tsv").write_text("fine film\t1\nbad\t0\nso bad\t0")
    (folder / "dev.tsv").write_text("good\t1")
    (folder / "test.tsv").write_text("fine\t1\nbad\t0")


def glue(folder: Path) -> None:
    (folder / "train.tsv").write_text("sentence\tlabel\nfine film \t1\nbad \t0\nso bad \t0\n")
    (folder / "dev.tsv").write_text("sentence\tlabel\ngood \t1\n")
    (folder / "test.tsv").write_text("index\tsentence\n0\tfine\n1\tbad\n")


def hub(folder: Path) -> None:
    rows = {"train": (["fine film ", "bad ", "so bad "], [1, 0, 0]), "validation": (["good "], [1])}
    for split, (sentences, labels) in {**rows, "test": (["fine", "bad"], [-1, -1])}.items():
        table = pa.table({"idx": list(range(len(labels))), "sentence": sentences, "label": labels})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")


def view(split: str | None, **more: object) -> View:
    return View(SPEC, {"sequence_length": 8}, split=split, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("form", "test_labels"), [(plain, True), (glue, False), (hub, False)])
def test_as_it_is_handed_out(tmp_path: Path, form, test_labels: bool) -> None:
    form(tmp_path)
    card = SST2.card(str(tmp_path), {})
    assert (card.kind, card.items, card.classes, card.splits) == ("text", 6, 2, SIZES)
    assert card.labels == ("negative", "positive")
    assert card.unlabelled == (() if test_labels else ("test",))
    train = SST2.samples(str(tmp_path), view("train"))
    assert [int(train[n]["labels"]) for n in range(3)] == [1, 0, 0]
    test = SST2.samples(str(tmp_path), view("test", tokenizer=train.tokenizer))
    assert len(test) == 2
    assert ("labels" in test[0]) == test_labels
    assert test[1]["input_ids"].tolist() == train[1]["input_ids"].tolist()  # "bad"


def test_classes_in_the_order_the_model_knows(tmp_path: Path) -> None:
    plain(tmp_path)
    turned = SST2.samples(str(tmp_path), view("train", labels=("positive", "negative")))
    assert [int(turned[n]["labels"]) for n in range(3)] == [0, 1, 1]
    with pytest.raises(UsageError, match=r"train\.tsv: row 1: class 'positive' is not a class of .*: good, bad"):
        SST2.samples(str(tmp_path), view("train", labels=("good", "bad")))


def test_a_single_file(tmp_path: Path) -> None:
    glue(tmp_path)
    card = SST2.card(str(tmp_path / "dev.tsv"), {})
    assert (card.items, card.splits, card.labels) == (1, {}, ("negative", "positive"))
    unlabelled = SST2.card(str(tmp_path / "test.tsv"), {})
    assert (unlabelled.items, unlabelled.classes, unlabelled.labels) == (2, None, ())


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("dev.tsv", "good\t1\nodd\t2\n", "row 2: label 2, and there are: 0 negative, 1 positive"),
        ("test.tsv", "index\tsentence\n0\tgood\nx\tbad\n", "row 3: the index 'x' is not a whole number"),
        ("test.tsv", "index\tsentence\n0\n", r"row 2: has 1 column, not 2; write index<TAB>sentence"),
        ("test.tsv", "index\tsentence\n0\t \n", "row 2: has no text"),
        ("test.tsv", "index\tsentence\n", "has no rows; each is index<TAB>sentence"),
        ("train.tsv", "good\tyes\n", "row 1: the label 'yes' is not a whole number"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, file: str, content: str, says: str) -> None:
    plain(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(UsageError, match=f"{tmp_path / file}: {says}"):
        SST2.card(str(tmp_path), {})


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"text": ["a"], "label": [1]}, "has no column sentence; it has: text, label"),
        ({"sentence": ["a", None], "label": [1, 0]}, "row 2: has no text"),
        ({"sentence": ["a", "b"], "label": [1, None]}, "row 2: the label 'None' is neither"),
        ({"sentence": ["a", "b"], "label": [1, -2]}, "row 2: the label '-2' is neither"),
        ({"sentence": ["a", "b"], "label": [1, -1]}, "row 2: some rows have a label, others have none"),
        ({"sentence": ["a", "b"], "label": [1, 7]}, "row 2: label 7, and there are"),
    ],
)
def test_wrong_parquet_is_named(tmp_path: Path, columns, says: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    with pytest.raises(UsageError, match=f"{tmp_path / 'train.parquet'}: {says}"):
        SST2.card(str(tmp_path), {})


def test_the_set_twice_in_a_folder(tmp_path: Path) -> None:
    plain(tmp_path)
    hub(tmp_path)
    with pytest.raises(UsageError, match=r"has \.tsv and \.parquet files"):
        SST2.card(str(tmp_path), {})


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")
def test_the_real_one() -> None:
    card = SST2.card(str(REAL), {})
    assert card.splits == {"train": 6920, "validation": 872, "test": 1821}
    assert card.classes == 2

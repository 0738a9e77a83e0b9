import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry
from torchstone.plugins.data import _table

CSV: Any = registry.load("data", "csv")
PARQUET: Any = registry.load("data", "parquet")
TEXT = InputSpec("text", classes=3, vocabulary=200)
NUMBERS = InputSpec("features", classes=3)
Write = Callable[[Path, Mapping[str, Sequence[Any]]], Path]


def as_csv(file: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    quoted = [['"' + str(cell).replace('"', '""') + '"' for cell in cells] for cells in columns.values()]
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*quoted, strict=True))]
    file.with_suffix(".csv").write_text("\n".join(lines), encoding="utf-8")
    return file.with_suffix(".csv")


def as_parquet(file: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    pq.write_table(pa.table(dict(columns)), file.with_suffix(".parquet"), row_group_size=2)
    return file.with_suffix(".parquet")


BOTH = pytest.mark.parametrize(("source", "write"), [(CSV, as_csv), (PARQUET, as_parquet)], ids=["csv", "parquet"])
REVIEWS: Mapping[str, Sequence[Any]] = {
    "review": ['good, "really"', "bad", "so so\nand long"],
    "mood": ["yes", "no", "maybe"],
    "stars": [2, 0, 1],
    "length": [3.5, 1.0, 2.0],
}


def view(spec: InputSpec, options: Mapping[str, Scalar], split: str | None = None, **more: Any) -> View:
    return View(spec, {"sequence_length": 8}, options=options, split=split, **more)


@BOTH
def test_text_and_words_for_classes(tmp_path: Path, source: Any, write: Write) -> None:
    path, options = str(write(tmp_path / "t", REVIEWS)), {"text": "review", "label": "mood"}
    card = source.card(path, options)
    assert (card.kind, card.items, card.classes, card.labels, card.splits) == (
        "text", 3, 3, ("maybe", "no", "yes"), {},
    )  # fmt: skip
    samples = source.samples(path, view(TEXT, options))
    assert [int(samples[n]["labels"]) for n in range(3)] == [2, 1, 0]
    assert samples[0]["input_ids"].shape == (8,)


@BOTH
def test_all_numbers_but_the_label(tmp_path: Path, source: Any, write: Write) -> None:
    path = str(write(tmp_path / "t", REVIEWS))
    card = source.card(path, {"label": "stars"})
    assert (card.kind, card.classes, card.labels) == ("features", 3, ())
    samples = source.samples(path, view(NUMBERS, {"label": "stars"}))
    assert [samples[n]["features"].tolist() for n in range(3)] == [[[3.5]], [[1.0]], [[2.0]]]
    assert [int(samples[n]["labels"]) for n in range(3)] == [2, 0, 1]
    named = source.samples(path, view(NUMBERS, {"features": "length, stars"}))
    assert named[0]["features"].tolist() == [[3.5, 2.0]]
    assert "labels" not in named[0]


@BOTH
def test_several_frames_in_a_row(tmp_path: Path, source: Any, write: Write) -> None:
    path = str(write(tmp_path / "t", {f"c{n}": [float(n), n + 0.5] for n in range(6)}))
    pairs = InputSpec("features", width=2)
    assert source.samples(path, view(pairs, {}))[1]["features"].tolist() == [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]
    cut = source.samples(path, View(pairs, {"sequence_length": 2}))
    assert cut[0]["features"].tolist() == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(UsageError, match="6 columns of features, but the model takes 4 values a frame"):
        source.samples(path, view(InputSpec("features", width=4), {}))


@BOTH
def test_a_folder_of_splits(tmp_path: Path, source: Any, write: Write) -> None:
    write(tmp_path / "train", {"text": ["a b", "c d", "e"], "label": ["x", "y", "x"]})
    write(tmp_path / "dev", {"text": ["f"], "label": ["y"]})
    write(tmp_path / "test", {"text": ["g", "h"]})
    options = {"text": "text", "label": "label"}
    card = source.card(str(tmp_path), options)
    assert card.splits == {"train": 3, "validation": 1, "test": 2}
    assert (card.items, card.labels) == (6, ("x", "y"))
    opened = source.samples(str(tmp_path), view(TEXT, options, "validation"))
    assert (len(opened), int(opened[0]["labels"])) == (1, 1)
    assert "labels" not in source.samples(str(tmp_path), view(TEXT, options, "test"))[0]


@BOTH
def test_what_a_later_split_has_alone_is_refused(tmp_path: Path, source: Any, write: Write) -> None:
    write(tmp_path / "train", {"t": ["a", "b"], "l": ["x", "y"], "n": [0, 1]})
    file = write(tmp_path / "test", {"t": ["a", "b"], "l": ["x", "z"], "n": [1, 2]})
    for column, says in (
        ("l", r"class 'z' does not .* which has x, y"),
        ("n", r"class 2 does not .* which has 0 to 1"),
    ):
        with pytest.raises(UsageError, match=f"{file}: row .: {says}"):
            source.card(str(tmp_path), {"text": "t", "label": column})


@BOTH
def test_the_classes_of_a_training_before(tmp_path: Path, source: Any, write: Write) -> None:
    options, path = {"text": "review", "label": "mood"}, str(write(tmp_path / "t", REVIEWS))
    samples = source.samples(path, view(TEXT, options, labels=("yes", "maybe", "no")))
    assert [int(samples[n]["labels"]) for n in range(3)] == [0, 2, 1]
    with pytest.raises(UsageError, match=r"class 'maybe' is not a class of the model's training: yes, no"):
        source.samples(path, view(TEXT, options, labels=("yes", "no")))
    stars = {"text": "review", "label": "stars"}
    with pytest.raises(UsageError, match=r"label 2, but the model was trained on 2 classes, 0 to 1: yes, no"):
        source.samples(path, view(TEXT, stars, labels=("yes", "no")))
    with pytest.raises(UsageError, match=r"label 2, but the model has 2 classes, 0 to 1; .* classes=3"):
        source.samples(path, view(InputSpec("text", classes=2, vocabulary=200), stars))


@BOTH
def test_a_causal_model_reads_labelled_text(tmp_path: Path, source: Any, write: Write) -> None:
    path = str(write(tmp_path / "t", REVIEWS))
    causal = InputSpec("text", vocabulary=200, causal=True)
    assert set(source.samples(path, view(causal, {"text": "review", "label": "mood"}))[0]) == {
        "input_ids", "attention_mask",
    }  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        (REVIEWS, {"text": "reviews"}, "has no column 'reviews'; it has: review, mood, stars, length"),
        (REVIEWS, {"text": "review", "label": "star"}, "has no column 'star'; it has"),
        (REVIEWS, {"text": "review", "features": "length"}, "give only one of them"),
        (REVIEWS, {"features": "length,stars", "label": "stars"}, "label=stars is also an input of the model"),
        ({"a": ["x"], "b": ["y"]}, {}, "give text=COLUMN or features=COLUMN,…; it has: a, b"),
        ({"t": ["good", " "], "l": [0, 1]}, {"text": "t", "label": "l"}, "row .: t has no text"),
        ({"t": ["a", "b"], "l": ["0", "many"]}, {"text": "t", "label": "l"}, "row .: l is 'many', not a whole number"),
        ({"t": ["a", "b"], "l": [0, -1]}, {"text": "t", "label": "l"}, "row .: l is -1, negative for a class"),
        ({"t": ["a", "b"], "l": [0, 10**6]}, {"text": "t", "label": "l"}, "row .: l is 1000000, too large"),
        ({"t": ["a", "b"], "l": ["u", ""]}, {"text": "t", "label": "l"}, "row .: l is empty"),
        ({"n": [1.0, float("nan")]}, {"features": "n"}, "row .: n is 'nan', not a finite number"),
        ({"n": [1.0, 1e300]}, {}, "row .: n is '1e.300', not a finite number"),
        ({"n": ["1", "one"]}, {"features": "n"}, "row .: n is 'one', not a finite number"),
        ({"n": []}, {"features": "n"}, "has no rows"),
    ],
)
def test_wrong_columns_are_named(
    tmp_path: Path, source: Any, write: Write, columns: Mapping[str, Sequence[Any]], options: Any, says: str
) -> None:
    file = write(tmp_path / "t", columns)
    with pytest.raises(UsageError, match=f"^{file}: .*{says}") as caught:
        source.card(str(file), options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@BOTH
def test_many_columns_are_not_all_listed(tmp_path: Path, source: Any, write: Write) -> None:
    file = write(tmp_path / "t", {f"column{n}": [n] for n in range(1000)})
    with pytest.raises(UsageError, match=r"\(1000 columns\)") as caught:
        source.card(str(file), {"text": "no"})
    assert len(str(caught.value)) < 500


@BOTH
def test_files_of_other_columns(tmp_path: Path, source: Any, write: Write) -> None:
    write(tmp_path / "train", {"t": ["a"], "l": [0]})
    write(tmp_path / "dev", {"t": ["a"], "label": [0]})
    with pytest.raises(UsageError, match=r"dev\.\w+: has no column 'l', which .*train\.\w+ has; it has: t, label"):
        source.card(str(tmp_path), {"text": "t", "label": "l"})


def test_what_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    for source, name, says in (
        (CSV, "no.csv", "no such file"),
        (CSV, "pipe.csv", "not a regular file"),
        (PARQUET, "no.parquet", "no such file"),
        (PARQUET, "torn.parquet", "cannot be read as Parquet"),
    ):
        with pytest.raises(UsageError, match=f"{tmp_path / name}: {says}") as caught:
            source.card(str(tmp_path / name), {"text": "t"})
        assert "\n" not in str(caught.value)
    for source in (CSV, PARQUET):
        with pytest.raises(UsageError, match="name the file or the folder"):
            source.card("", {"text": "t"})


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("a,b\n1,2\n3\n", {}, "row 3: has 1 column, not 2: a, b"),
        ("a,b\n1,2\n\n3,4,5\n", {}, "row 4: has 3 columns, not 2"),
        ('a,b\n"1,2\n3,4\n', {}, "row 2: .*; is a quote open or out of place"),
        ('a,b\n"1"x,2\n', {}, "row 2: .*; is a quote open"),
        ('a,b\n1,"' + "x" * 200_000 + '"\n', {}, "row 2: field larger than field limit"),
        ("a;b\n1;2\n", {}, "one column, 'a;b'; for another separator give separator=;"),
        ("a\tb\n1\t2\n", {}, "separator=tab"),
        ("a,a\n1,2\n", {}, "row 1: two columns are called 'a'"),
        ("a,b\n", {}, "has no rows below its header"),
        ("a,b\n1,\0\n", {}, "row 2: has NUL bytes"),
        ("a,b\n1,2\n", {"separator": "||"}, r"separator=\|\|: one character, or tab"),
        ("a,b\n1,2\n", {"separator": '"'}, "one character"),
        ("a,b\n1,2\n", {"header": "perhaps"}, "header: 'perhaps' is not true or false"),
    ],
)
def test_csv_that_is_none(tmp_path: Path, content: str, options: Mapping[str, Scalar], says: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UsageError, match=says) as caught:
        CSV.card(str(tmp_path / "t.csv"), options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_other_separators_and_no_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffbad;0\ngood;1\n", encoding="utf-8")
    options: Mapping[str, Scalar] = {"separator": ";", "header": "no", "text": 1, "label": "2"}
    assert CSV.card(str(tmp_path / "t.csv"), options).items == 2
    assert int(CSV.samples(str(tmp_path / "t.csv"), view(TEXT, options))[1]["labels"]) == 1
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n")
    assert CSV.samples(str(tmp_path / "t.tsv"), view(NUMBERS, {}))[0]["features"].tolist() == [[1.0, 2.0]]


def test_a_column_without_a_name_is_no_feature(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",a,label\n0,1.5,1\n1,2.5,0\n")  # as pandas writes its index
    samples = CSV.samples(str(tmp_path / "t.csv"), view(NUMBERS, {"label": "label"}))
    assert samples[1]["features"].tolist() == [[2.5]]


def test_classes_written_as_fractions(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,label\n1,1.0\n2,0.0\n")  # as pandas writes integers beside a gap
    assert CSV.card(str(tmp_path / "t.csv"), {"label": "label"}).classes == 2


def test_a_column_of_too_many_names_holds_no_classes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("t,id\n" + "".join(f"a,name{n}\n" for n in range(10_001)))
    with pytest.raises(UsageError, match="row 10002: more than 10000 different labels"):
        CSV.card(str(tmp_path / "t.csv"), {"text": "t", "label": "id"})


def test_shards_are_one_split(tmp_path: Path) -> None:
    for n in range(2):
        as_parquet(tmp_path / f"train-0000{n}-of-00002", {"t": [f"word{n}", "x"], "l": [n, n]})
    options = {"text": "t", "label": "l"}
    assert PARQUET.card(str(tmp_path), options).splits == {"train": 4}
    samples = PARQUET.samples(str(tmp_path), view(TEXT, options, "train"))
    assert [int(samples[n]["labels"]) for n in range(4)] == [0, 0, 1, 1]
    (tmp_path / "train-00001-of-00002.parquet").unlink()
    with pytest.raises(UsageError, match="has 1 of the 2 files of train"):
        PARQUET.card(str(tmp_path), options)


def test_parquet_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table, "_MOST_BYTES", 100)
    file = as_parquet(tmp_path / "t", {"n": [float(n) for n in range(100)]})
    with pytest.raises(UsageError, match="bytes unpacked, more than the 100"):
        PARQUET.card(str(file), {})


def test_the_digest_is_of_the_contents(tmp_path: Path) -> None:
    one, two = (as_csv(tmp_path / name, {"n": [1, 2]}) for name in ("a", "b"))
    assert CSV.card(str(one), {}).sha256 == CSV.card(str(two), {}).sha256
    as_csv(tmp_path / "b", {"n": [1, 3]})
    assert CSV.card(str(one), {}).sha256 != CSV.card(str(two), {}).sha256


def test_features_are_one_tensor_for_all_processes(tmp_path: Path) -> None:
    samples = CSV.samples(str(as_csv(tmp_path / "t", {"a": [1, 2], "b": [3, 4]})), view(NUMBERS, {}))
    assert samples[0]["features"].dtype is torch.float32
    assert samples[0]["features"].untyped_storage().data_ptr() == samples[1]["features"].untyped_storage().data_ptr()

"""Cases are matched by what they compute; who is compared is found by every word that means a run."""

import msgspec
import pytest
from build import a_case
from comparable import a_gpu, a_stored_run, write_record

from torchstone.analysis.compare import inputs
from torchstone.analysis.compare.inputs import (
    ComparedInput,
    gather,
    lost,
    match,
    participant_named,
    split,
    uncompared_cases,
)
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.training import TrainingMetrics
from torchstone.storage.run_document import write_document
from torchstone.storage.training import METRICS, write_json

STEPS = (0.010, 0.011, 0.010)


def sides(*runs):
    return [ComparedInput(letter, letter, letter, (run,)) for letter, run in zip("ABCD", runs, strict=False)]


def matched(*runs):
    return [(one.label, sorted(one.sides)) for one in match(sides(*runs))]


def test_one_model_on_two_kinds_of_device_is_one_case():
    on = [a_case(placement=Placement(kind)) for kind in ("rocm", "cuda", "cpu")]
    runs = [a_stored_run(STEPS, case) for case in on]
    assert matched(*runs) == [("train cnn", ["A", "B", "C"])]


def test_what_varies_within_a_run_must_be_equal_and_what_does_not_may_differ():
    sizes = [a_case({"batch_size": size, "precision": "fp32"}) for size in (1, 8, 64)]
    others = [a_case({"batch_size": size, "precision": "bf16"}) for size in (64, 8, 512)]
    runs = [a_stored_run(STEPS, first, *((case, STEPS) for case in more)) for first, *more in (sizes, others)]
    assert matched(*runs) == [("train cnn, batch_size 8", ["A", "B"]), ("train cnn, batch_size 64", ["A", "B"])]


def test_what_is_compared_with_nothing_is_told():
    sizes = [a_case({"batch_size": size}) for size in (1, 8, 64)]
    runs = [
        a_stored_run(STEPS, sizes[0], (sizes[1], STEPS)), a_stored_run(STEPS, sizes[0], (sizes[2], STEPS)),
        a_stored_run(STEPS, sizes[0], (sizes[2], STEPS)),
    ]  # fmt: skip
    alone = uncompared_cases(sides(*runs), match(sides(*runs)))
    last = ("train net:cnn batch_size 64",)
    assert alone == {"A": ("train net:cnn batch_size 8",), "B": last, "C": last}, "B and C match, but not the baseline"
    assert uncompared_cases(sides(*runs[1:]), match(sides(*runs[1:]))) == {}


def test_speed_only_axes_go_same_with_same():
    def loaders(*workers):
        return [a_case({"num_workers": count}) for count in workers]

    two, one = loaders(0, 4), loaders(4)
    runs = [a_stored_run(STEPS, first, *((case, STEPS) for case in more)) for first, *more in (two, one)]
    assert matched(*runs) == [("train cnn, num_workers 4", ["A", "B"])]


def test_single_cases_are_compared_even_where_the_batch_differs():
    runs = [a_stored_run(STEPS, a_case({"batch_size": size})) for size in (8, 16)]
    assert matched(*runs) == [("train cnn", ["A", "B"])]


def test_an_older_record_without_an_axis_has_its_default():
    new = [a_case({"sdpa": kernel}) for kernel in ("auto", "math")]
    runs = [a_stored_run(STEPS, new[0], (new[1], STEPS)), a_stored_run(STEPS, a_case())]
    assert matched(*runs) == [("train cnn, sdpa auto", ["A", "B"])]


def test_a_file_in_another_folder_is_the_same_model():
    runs = [a_stored_run(STEPS, a_case(model=f"py:/{home}/mine.py:load")) for home in ("alice", "bob")]
    assert matched(*runs) == [("train mine.py:load", ["A", "B"])]


def test_no_case_in_common_names_what_there_is():
    runs = [a_stored_run(STEPS, a_case(task=Task.INFER)), a_stored_run(STEPS, a_case(model="net:mlp"))]
    with pytest.raises(UsageError, match=r"no case in common.*A has infer net:cnn batch_size 16; B has train net:mlp"):
        match(sides(*runs))


def test_two_data_sets_of_one_run_are_two_cases():
    cases = [a_case(data=data) for data in ("digits", "synthetic")]
    runs = [a_stored_run(STEPS, cases[0], (cases[1], STEPS)) for _ in range(2)]
    assert matched(*runs) == [("train cnn", ["A", "B"]), ("train cnn (2)", ["A", "B"])]


@pytest.fixture
def store(outputs):
    runs = [a_stored_run(STEPS, name=name, machine=a_gpu(card)) for name, card in (("old", "L4"), ("new", "A100"))]
    for run in runs:
        write_record(run, outputs)
    return outputs, [run.head.run_id for run in runs]


def test_every_word_for_a_run_and_a_label_that_tells_them_apart(store, tmp_path):
    outputs, ids = store
    found = gather([ids[0], "new"], outputs)
    assert [(one.letter, one.label) for one in found] == [("A", "old"), ("B", "new")], "both were placed on the CPU"
    path = outputs / "records" / f"{ids[0]}.jsonl"
    assert gather([str(path), ids[1]], outputs)[0].runs[0].head.run_id == ids[0]
    assert [one.letter for one in gather([ids[0], "new"], outputs, baseline="new")] == ["B", "A"]
    assert participant_named(found, "new", "--x").letter == participant_named(found, "B", "--x").letter == "B"
    with pytest.raises(UsageError, match=r"--x C: not one of the compared runs.*A \(old\), B \(new\)"):
        participant_named(found, "C", "--x")


def test_cards_give_the_labels_where_they_differ(tmp_path, outputs):
    for card in ("L4", "A100"):
        write_record(a_stored_run(STEPS, a_case(placement=Placement("cuda")), machine=a_gpu(card)), tmp_path / card)
    found = gather([str(tmp_path / "L4"), str(tmp_path / "A100")], outputs)
    assert [one.label for one in found] == ["L4", "A100"]


def test_a_folder_is_all_its_runs_each_once(tmp_path, outputs):
    folder = tmp_path / "theirs"
    runs = [a_stored_run(STEPS), a_stored_run(STEPS, minutes=5)]
    for run in runs:
        write_record(run, folder)
        write_document(run, folder)
    (folder / "benchmark_comparison_20260101_000000.json").write_text("{}")
    (folder / "records" / "link.jsonl").symlink_to(folder / "records" / f"{runs[0].head.run_id}.jsonl")
    other = write_record(a_stored_run(STEPS), tmp_path / "mine")
    first = gather([str(folder), str(other)], outputs)[0]
    assert [run.head.run_id for run in first.runs] == [run.head.run_id for run in runs]


def test_mistakes_have_one_line_each(store, tmp_path):
    outputs, ids = store
    (tmp_path / "empty").mkdir()
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "x.jsonl").write_text("nonsense\n")
    for words, said in (
        ([ids[0]], "two or more runs"), ([ids[0], ids[0]], "the same run"), ([ids[0], "latest", "A"], "no run 'A'"),
        ([ids[0], str(tmp_path / "empty")], "no records"), ([ids[0], str(bad)], "not a torchstone record"),
        ([ids[0]] * 105, "105 runs are too many"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            gather(words, outputs)


def test_one_run_is_split_over_an_axis(outputs):
    cases = [a_case({"precision": word}) for word in ("fp32", "bf16")]
    run = a_stored_run(STEPS, cases[0], (cases[1], STEPS))
    write_record(run, outputs)
    found = split("latest", "precision", outputs)
    assert [(one.letter, one.label, len(one.runs[0].trials)) for one in found] == [
        ("A", "precision fp32", 3), ("B", "precision bf16", 3),
    ]  # fmt: skip
    assert [one.label for one in match(found)] == ["train cnn"]
    with pytest.raises(UsageError, match="only one value, cpu"):
        split("latest", "device", outputs)
    with pytest.raises(UsageError, match="no such axis"):
        split("latest", "colour", outputs)


def test_failed_runs_of_a_folder_give_way_to_those_that_ended_well(tmp_path):
    good, bad = a_stored_run(STEPS), a_stored_run([None, None], minutes=9)
    other = a_stored_run(STEPS)
    both = ComparedInput("A", "A", "A", (good, bad))
    (found,) = match([both, ComparedInput("B", "B", "B", (other,))])
    assert [taken.run.head.run_id for taken in found.sides["A"]] == [good.head.run_id]
    (alone,) = match([msgspec.structs.replace(both, runs=(bad,)), ComparedInput("B", "B", "B", (other,))])
    assert not alone.sides["A"][0].trials
    assert len(alone.sides["A"][0].failed) == 2


def test_the_folder_of_a_training_brings_its_run_from_the_store_and_its_metrics(store, tmp_path):
    outputs, ids = store
    folder = tmp_path / "trained"
    folder.mkdir()
    metrics = TrainingMetrics(ids[0], "m", "d", "cpu", "image", (), 1.0, 0.1, 100.0, 0.75, 0.5, 1)
    write_json(folder / METRICS, metrics)
    found = gather([str(folder), ids[1]], outputs)
    assert [one.runs[0].head.run_id for one in found] == ids
    assert found[0].trainings[ids[0]].final_val_accuracy == 0.5
    (by_file, _) = gather([str(folder / METRICS), ids[1]], outputs)
    assert (by_file.runs, by_file.trainings) == (found[0].runs, found[0].trainings), "the file means its folder"
    (folder / METRICS).write_text("{}")
    with pytest.raises(UsageError, match="does not match the schema"):
        gather([str(folder), ids[1]], outputs)


@pytest.mark.parametrize("run_id", ["latest", "old", "../secret", "/etc/hostname", "secret.jsonl"])
def test_a_training_names_its_run_by_its_id_and_by_nothing_else(store, tmp_path, monkeypatch, run_id):
    outputs, ids = store
    monkeypatch.chdir(tmp_path)
    written = write_record(a_stored_run(STEPS), tmp_path / "mine")
    (tmp_path / "secret.jsonl").write_bytes(written.read_bytes())
    folder = tmp_path / "trained"
    folder.mkdir()
    write_json(folder / METRICS, TrainingMetrics(run_id, "m", "d", "cpu", "image", (), 1.0, 0.1, 100.0, 0.75, 0.5, 1))
    with pytest.raises(UsageError, match=r"run id|no run"):
        gather([str(folder), ids[1]], outputs)


def test_a_folder_of_very_many_files_is_refused_before_they_are_all_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_MOST_FILES", 3)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text("")
    with pytest.raises(UsageError, match="more than 3 files"):
        list(inputs._trainings(folder))


def test_a_case_that_only_the_baseline_has_is_lost():
    cases = [a_case({"batch_size": size}) for size in (1, 8, 64)]
    base = a_stored_run(STEPS, cases[0], (cases[1], STEPS), (cases[2], [None]))
    whole = a_stored_run(STEPS, cases[0], (cases[1], STEPS))
    lacking = a_stored_run(STEPS, cases[0])
    failed = a_stored_run(STEPS, cases[0], (cases[1], [None]))
    found = sides(base, whole, lacking, failed)
    gone = ("train net:cnn batch_size 8",)
    assert lost(found, match(found)) == {"C": gone, "D": gone}, "of batch size 64 the baseline itself knows nothing"

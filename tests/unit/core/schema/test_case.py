"""A Case's id: equal on every machine for equal work, different where the work differs."""

import msgspec
import pytest
from build import a_case

from torchstone.core.schema.case import Placement, model_name, portable


def changed(**fields):
    return msgspec.structs.replace(a_case(), **fields).case_id


def test_the_id_is_that_of_the_canonical_form():
    case = a_case()
    assert len(case.case_id) == 12
    assert changed(configuration=dict(reversed(list(case.configuration.items())))) == case.case_id
    assert changed(configuration={**case.configuration, "batch_size": 999}) != case.case_id


def test_which_of_several_equal_cards_it_was_is_not_part_of_it():
    assert changed(placement=Placement("cuda", 0)) == changed(placement=Placement("cuda", 3))
    assert changed(placement=Placement("cuda", 0)) != changed(placement=Placement("rocm", 0))
    assert changed(placement=Placement("cuda", count=1)) != changed(placement=Placement("cuda", count=2))


@pytest.mark.parametrize(
    ("spec", "same"),
    [
        ("tsv:/home/a/train.tsv", "tsv:train.tsv"),
        ("py:./models/mine.py:load", "py:mine.py:load"),
        ("hf:google/vit-base-patch16-224", "hf:google/vit-base-patch16-224"),
        ("hf:/home/a/bert", "hf:bert"),
        ("hf:./bert", "hf:bert"),
        ("hf:facebook/opt-125m@/home/a/w.pth", "hf:w.pth"),
        ("synthetic:full", "synthetic:full"),
        ("digits", "digits"),
    ],
)
def test_folders_do_not_count(spec, same):
    assert portable(spec) == same


def test_a_placement_reads_as_it_is_typed():
    assert [str(Placement(kind, 1)) for kind in ("cpu", "mps", "cuda", "rocm")] == ["cpu", "mps", "cuda:1", "rocm:1"]


def test_every_word_has_an_id_of_its_own():
    ids = {a_case({"channels_last": word}).case_id for word in ("auto", "on", "off")}
    ids |= {a_case({"sdpa": word}).case_id for word in ("auto", "flash", "efficient", "cudnn", "math")}
    assert len(ids) == 8


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("builtin:cnn", "cnn"), ("py:/home/alice/mine.py:load", "mine.py:load"), ("py:pkg.nets:load", "pkg.nets:load"),
        ("hf:owner/name", "owner/name"), ("hf:/models/mine", "mine"), ("resnet50", "resnet50"),
        ("program:python train.py --lr 1", "python train.py …"), ("program:python train.py", "python train.py"),
    ],
)  # fmt: skip
def test_a_model_has_the_name_that_people_know_it_by(spec, name):
    assert model_name(spec) == name

"""Images as people have them, through the real CLI: a damaged one in the middle, a hostile pickle, a class too many."""

import json

import pytest
from pictures import batch, cifar_batches, class_folders

from torchstone.cli import main


@pytest.mark.long
def test_a_damaged_image_stops_or_is_skipped_and_counted(tmp_path, capfd, refused):
    photos = class_folders(tmp_path / "photos", each=4)
    damaged = photos / "cat" / "2.png"
    damaged.write_bytes(damaged.read_bytes()[:40])
    words = ["run", "--model", "builtin:cnn", "--data", f"images:{photos}", "--batch-sizes", "8", "--device", "cpu"]
    words += ["--axis", "image_size=32", "--axis", "feed=loader", "--trials", "1", "--iterations", "2"]
    said = refused(*words)
    assert f"{damaged}: cannot be read as an image" in said
    assert "--data-option on_error=skip leaves such items out" in said
    assert main([*words, "--data-option", "on_error=skip", "--json", "--quiet"]) == 0
    (case,) = json.loads(capfd.readouterr().out)["cases"]
    (finding,) = [finding for finding in case["findings"] if finding["check"] == "unreadable"]
    assert finding["message"].startswith(f"1 item of 8 could not be read: {damaged}: ")
    assert case["workload"]["data_options"] == {"on_error": "skip"}
    assert main(["show"]) == 0
    assert "1 item of 8 could not be read" in " ".join(capfd.readouterr().out.split())


def test_data_that_is_hostile_or_unfit_is_refused_in_one_line(tmp_path, refused):
    folder = cifar_batches(tmp_path / "cifar")
    words = ["run", "--model", "builtin:cnn", "--axis", "image_size=32", "--data"]
    batch(folder / "data_batch_3.bin", [0, 99])
    assert "image 1: label 99 is out of range" in refused(*words, f"cifar10:{folder}")
    pickles, proof = tmp_path / "pickles", tmp_path / "the-code-ran"
    pickles.mkdir()
    (pickles / "data_batch_1").write_bytes(f"cposix\nsystem\n(S'touch {proof}'\ntR.".encode())
    assert "unpack cifar-10-binary.tar.gz instead" in refused(*words, f"cifar10:{pickles}")
    assert not proof.exists()
    class_folders(tmp_path / "photos" / "train")
    class_folders(tmp_path / "photos" / "test", ("cat", "emu"))
    assert "test has images of class 'emu', but train has none" in refused(*words, f"images:{tmp_path / 'photos'}")
    assert "name the folder: cifar10:PATH (with a recipe: --data PATH)" in refused("run", "vit-cifar10")

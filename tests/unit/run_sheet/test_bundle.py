import tarfile

import accelerator_bundle as bundle


def test_what_is_pinned_is_asked_for_as_it_is_pinned():
    text = "# a comment==1\ntorch==2.13.0\nmsgspec==0.22.0\n"
    assert bundle.requirements(["msgspec", "pluggy"], text) == ["msgspec==0.22.0", "pluggy"]


def test_torch_and_what_belongs_to_it_is_never_asked_for():
    assert not {"torch", "transformers", "triton", "timm", "torchvision", "numpy", "pyarrow"} & set(bundle.WHEELS)


def test_wheels_are_those_of_the_other_machine_alone(tmp_path):
    words = bundle.download(tmp_path, "3.12", "x86_64")
    assert "--no-deps" in words
    assert words[words.index("--only-binary") + 1] == ":all:"
    assert words[words.index("--python-version") + 1] == "3.12"
    assert "manylinux_2_17_x86_64" in words
    assert "cp312" in words


def test_the_archive_unpacks_to_a_tree_with_its_wheels(tmp_path):
    wheel = tmp_path / "thing-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    files = bundle.tree()
    bundle.pack(tmp_path / "all.tar.gz", files, [wheel])
    with tarfile.open(tmp_path / "all.tar.gz") as tar:
        names = set(tar.getnames())
        assert all(member.uid == 0 and member.uname == "" for member in tar.getmembers())
    assert {"torchstone/benchmarks/accelerator.py", "torchstone/benchmarks/run_sheet/sheet.py"} <= names
    assert {
        "torchstone/src/torchstone/__init__.py",
        "torchstone/pyproject.toml",
        "torchstone/tests/conftest.py",
    } <= names
    assert "torchstone/wheels/thing-1.0-py3-none-any.whl" in names
    assert not [name for name in names if name.startswith("torchstone/benchmarks/data/")]

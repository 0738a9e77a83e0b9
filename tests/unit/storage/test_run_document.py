import json
import math

import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.storage.run_document import read_document, write_document

CARD = DeviceInfo("cuda", "cuda", "nvidia", 0, "H200", 141 * 2**30, "9.0")


def test_the_name_says_vendor_and_moment(tmp_path):
    assert write_document(a_run(), tmp_path).name == "benchmark_cpu_20261121_100000.json"
    case = a_case(placement=Placement("cuda"))
    run = a_run([], cases=[case], machine=a_machine(devices=(CARD,)))
    assert write_document(run, tmp_path).name == "benchmark_nvidia_20261121_100000.json"


def test_nothing_is_written_over_and_nothing_half_written_stays(tmp_path):
    paths = [write_document(a_run(), tmp_path) for _ in range(3)]
    assert [p.name[-8:] for p in paths] == ["000.json", "00_2.json"[-8:], "00_3.json"[-8:]]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_a_run_survives_the_round_trip(tmp_path):
    run = a_run([a_trial(steady={"loss": [math.nan]})])
    path = write_document(run, tmp_path)
    back = read_document(path)
    assert str(back.trials[0].values("loss")) == "(nan,)"
    assert back.head == run.head
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["rows"] == []


def test_a_trial_that_is_there_twice_is_one(tmp_path):
    path = write_document(a_run(), tmp_path)
    document = json.loads(path.read_text())
    document["trials"] *= 2
    path.write_text(json.dumps(document))
    assert read_document(path) == a_run()
    document["trials"][0] = {**document["trials"][0], "duration_s": 99.0}
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="is there twice, with different content"):
        read_document(path)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not a torchstone document"),
        (b"[]", "not a torchstone document"),
        (b"{}", "not a torchstone document"),
        (b'{"record":"document","schema":9}', "of schema 9, this torchstone reads schema 1: use"),
        (b'{"record":"document","schema":1}', "does not match the schema"),
        (b'{"record":"document","schema":1', "is not JSON"),
        (b'{"record":' + b"[" * 100_000, "nested too deeply|not a torchstone"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path, data, what):
    path = tmp_path / "d.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=what):
        read_document(path)

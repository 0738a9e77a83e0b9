"""What a machine has, in sections; what is missing is said, and what is not known is a dash."""

from build import a_machine, peaks_of
from results import H200, HOSTILE

from torchstone.core.schema.machine import Host
from torchstone.report.document import Fields, Section
from torchstone.report.documents.machine import machine_document
from torchstone.report.renderers.terminal import terminal


def told(machine, missing=None):
    """The rows of each section, by its title."""
    sections = [part for part in machine_document(machine, missing or {}).parts if isinstance(part, Section)]
    return {one.title: [row for part in one.parts if isinstance(part, Fields) for row in part.rows] for one in sections}


def test_a_section_for_host_each_device_what_is_missing_and_the_software():
    machine = a_machine(devices=(H200,), settings={"OMP_NUM_THREADS": "4", "turbo": None})
    found = told(machine, {"mps": "this is Linux"})
    assert list(found) == ["host", "device cuda:0", "not here", "software", "settings"]
    host = dict(found["host"])
    assert (host["name"], host["cores"], host["memory"]) == ("host", "4 (8 logical)", "16.0 GiB")
    assert ("name", "NVIDIA H200") in found["device cuda:0"]
    assert found["not here"] == [("mps", "this is Linux")]
    assert found["software"] == [("torch", "2.9.0")]
    assert found["settings"] == [("OMP_NUM_THREADS", "4")], "what is not set is no setting"


def test_each_section_has_its_title_above_it():
    text = terminal(machine_document(a_machine(), {"mps": "this is Linux"}), 80)
    assert text.startswith("No device; torch 2.9.0.\n\nhost\n")
    assert "\n\nnot here\n" in text
    assert "\n\nsoftware\n" in text


def test_what_was_measured_of_a_device_is_told_for_every_number_of_threads():
    found = told(a_machine(peaks=(peaks_of(), peaks_of(threads=8))))
    assert found["peaks (torchstone machine peaks)"] == [
        ("cpu:0", "400 GFLOP/s in bf16, 2 threads, measured 2026-11-22"),
        ("cpu:0", "400 GFLOP/s in bf16, 8 threads, measured 2026-11-22"),
    ]


def test_what_the_system_does_not_tell_is_a_dash_and_a_name_steers_nothing():
    machine = a_machine(host=Host(HOSTILE, "Linux", None, None, None, None))
    host = dict(told(machine)["host"])
    assert (host["processor"], host["cores"], host["memory"], host["governor"]) == ("–", "– (– logical)", "–", "–")
    assert "\x1b" not in terminal(machine_document(machine, {}), 80)

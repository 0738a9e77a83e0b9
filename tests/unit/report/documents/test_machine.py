"""What a machine has, in sections; what is missing is said, and what is not known is a dash."""

from build import a_machine, peaks_of
from results import H200, HOSTILE

from torchstone.core.schema.machine import Host
from torchstone.report.document import Section
from torchstone.report.documents.machine import machine_document
from torchstone.report.renderers.terminal import terminal


def test_a_section_for_host_each_device_what_is_missing_and_the_software():
    machine = a_machine(devices=(H200,), settings={"OMP_NUM_THREADS": "4", "turbo": None})
    document = machine_document(machine, {"mps": "this is Linux"})
    titles = [part.title for part in document.parts if isinstance(part, Section)]
    assert titles == ["host", "device cuda:0", "not here", "software", "settings"]
    text = terminal(document, 80)
    assert "\nname      host\n" in text
    assert "\ncores     4 (8 logical)\n" in text
    assert "\nmemory    16.0 GiB\n" in text
    assert "NVIDIA H200" in text
    assert "\nnot here\nmps       this is Linux\n" in text
    assert "OMP_NUM_THREADS 4\n" in text
    assert "turbo" not in text, "what is not set is no setting"
    assert "governor  –\n" in text


def test_what_was_measured_of_a_device_is_told_for_every_number_of_threads():
    text = terminal(machine_document(a_machine(peaks=(peaks_of(), peaks_of(threads=8))), {}), 80)
    assert "cpu:0     400 GFLOP/s in bf16, 2 threads, measured 2026-11-22\n" in text
    assert "cpu:0     400 GFLOP/s in bf16, 8 threads, measured 2026-11-22\n" in text


def test_what_the_system_does_not_tell_is_a_dash_and_a_name_steers_nothing():
    host = Host(HOSTILE, "Linux", None, None, None, None)
    text = terminal(machine_document(a_machine(host=host), {}), 80)
    assert "processor –\n" in text
    assert "cores     – (– logical)\n" in text
    assert "memory    –\n" in text
    assert "\x1b" not in text
    assert "None" not in text

"""The table of peaks: measured beside promised, on a wide terminal and a narrow one."""

import msgspec
import pytest
from build import a_machine, peaks_of

from torchstone.cli import _machine_peaks
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.peaks import Rate

H200 = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", memory_bytes=141 << 30, uuid="GPU-1")
ON_H200 = peaks_of(
    kind="cuda", device_name="NVIDIA H200", uuid="GPU-1", matmul_fp32=5e13, matmul_bf16=7.945e14, memory_copy=4.2e12,
    memory_triad=4.3e12, busy_cores=0.1,
)  # fmt: skip
PINNED = Rate("host_to_device_pinned", None, "bytes/s", "no pinned memory: \x1b[31mnone")


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(peaks, device, width, *, new=True):
        monkeypatch.setenv("COLUMNS", str(width))
        promised = _machine_peaks.promised_of(peaks, device)
        _machine_peaks.show_peaks(peaks, a_machine(devices=(device,)), promised, new=new)
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize("width", [80, 160])
def test_what_the_vendor_promises_stands_beside_with_its_source(shown, width):
    text = shown(ON_H200, H200, width)
    row = next(line for line in text.splitlines() if line.startswith("products in bf16"))
    assert "794 TFLOP/s" in row
    assert "989 TFLOP/s" in row
    assert "80.3 %" in row
    triad = next(line for line in text.splitlines() if line.startswith("memory, triad"))
    assert "4,800 GB/s" in triad
    assert "H200 Tensor Core GPU datasheet" in text
    assert max(map(len, text.splitlines())) <= width
    assert "no vendor's figures" not in text


def test_a_cpu_has_no_datasheet_and_its_threads_matter(shown):
    text = shown(peaks_of(), DeviceInfo("cpu", "cpu", "AMD", 0, "a processor"), 100, new=False)
    assert "no vendor's figures are known for a processor" in text
    assert "2 threads" in text
    assert "--again measures anew" in text
    assert "datasheet\n" not in text


def test_what_was_not_measured_says_why_and_nothing_steers_the_terminal(shown):
    peaks = msgspec.structs.replace(ON_H200, rates=(*ON_H200.rates, PINNED), busy_cores=1.5)
    text = shown(peaks, H200, 100)
    assert "not measured: to the device, pinned: no pinned memory" in text
    assert "\x1b" not in text
    assert "these are no peaks" in text

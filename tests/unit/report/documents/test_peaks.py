"""The table of peaks: measured beside promised, on a wide terminal and a narrow one."""

import msgspec
import pytest
from build import peaks_of
from results import H200, ON_H200

from torchstone.core.schema.machine import DeviceInfo, Rate
from torchstone.report.documents.machine import MeasuredPeaks, peaks_document
from torchstone.report.renderers.terminal import terminal

PINNED = Rate("host_to_device_pinned", None, "bytes/s", "no pinned memory: \x1b[31mnone")


def shown(peaks, device, width, *, new=True):
    return terminal(peaks_document(MeasuredPeaks(peaks, device, new)), width)


@pytest.mark.parametrize("width", [80, 160])
def test_what_the_vendor_promises_stands_beside_with_its_source(width):
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


def test_the_best_product_and_the_memory_are_the_answer():
    headline = peaks_document(MeasuredPeaks(ON_H200, H200)).headline
    assert headline == (
        "Best measured: 794 TFLOP/s in bf16 (80.3 % of the datasheet's), memory 4,300 GB/s (89.6 % of the datasheet's)."
    )
    nothing = msgspec.structs.replace(ON_H200, rates=(PINNED,))
    assert "could be measured" in (peaks_document(MeasuredPeaks(nothing, None)).headline or "")


@pytest.mark.parametrize("width", [80, 160])
def test_how_each_figure_came_about_is_told_however_narrow_the_terminal(width):
    how = Rate("disk_read", 1e9, "bytes/s", "a file of 1 GiB, past the page cache")
    text = shown(msgspec.structs.replace(ON_H200, rates=(*ON_H200.rates, how)), H200, width)
    below = text[text.index("how each was measured") :]
    assert "disk, read" in below
    assert "a file of 1 GiB, past the page cache" in " ".join(below.split())


def test_a_cpu_has_no_datasheet_and_its_threads_matter():
    text = shown(peaks_of(), DeviceInfo("cpu", "cpu", "AMD", 0, "a processor"), 100, new=False)
    assert "no vendor's figures are known for a processor" in text
    assert "2 threads" in text
    assert "stored: --again measures again" in " ".join(text.split())
    assert "datasheet" not in text


def test_what_was_not_measured_says_why_and_nothing_steers_the_terminal():
    peaks = msgspec.structs.replace(ON_H200, rates=(*ON_H200.rates, PINNED), busy_cores=1.5)
    text = shown(peaks, H200, 100)
    assert "not measured: to the device, pinned: no pinned memory" in text
    assert "\x1b" not in text
    assert "these are no peaks" in text

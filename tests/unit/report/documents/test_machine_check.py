"""An examination of a machine, as it is printed: the verdict with what is behind it, and what to do."""

from results import NOISY, QUIET, UNTOLD, an_examination

from torchstone.report.documents.machine import machine_check_document
from torchstone.report.renderers.terminal import terminal


def test_a_quiet_machine_is_fit_and_what_a_minute_of_ab_finds_is_told():
    text = terminal(machine_check_document(an_examination()), 80)
    assert text.startswith("This machine is fit.\n\n")
    assert "`torchstone ab` detects a difference of 0.8 % with a power of 95 %" in " ".join(text.split())
    assert "other processes fit: 0.00 of 8 cores busy\n" in text
    assert "steal unknown: this system does not report it" in " ".join(text.split())
    assert "what to do" not in text


def test_what_makes_it_noisy_is_in_the_verdict_and_below_is_what_to_do():
    document = machine_check_document(an_examination(QUIET, NOISY, UNTOLD, settled=None))
    assert document.headline == "This machine is noisy: disk."
    text = terminal(document, 60)
    assert max(map(len, text.splitlines())) <= 60
    flat = " ".join(text.split())
    assert "disk noisy: 512 MiB free in outputs" in flat
    assert "what to do disk free disk space, or use another folder (--output-dir)" in flat
    assert "torchstone ab" not in text, "without an A/A test nothing is known of that"

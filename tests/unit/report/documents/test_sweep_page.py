"""The page of a sweep: what limits with its evidence, what failed, what to doubt; and sound Markdown."""

import re
from pathlib import Path

import msgspec
from build import a_finding, a_machine, a_run, a_sweep

from torchstone.analysis.summary import summarize
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status
from torchstone.report.document import Chart
from torchstone.report.documents import sweep as charts
from torchstone.report.documents.sweep import Swept, sweep_document, sweep_rows
from torchstone.report.renderers.md import markdown
from torchstone.storage.query import entry_of
from torchstone.workflows.diagnose.measured_diagnosis import diagnosed_from_record
from torchstone.workflows.diagnose.target import of_own_program

PHASES = {"data": 0.4, "forward": 0.2, "backward": 0.3, "optimizer": 0.05, "rest": 0.05}
SIZES = (8, 32, 128, 512)


def swept(run: Run, skipped=None) -> Swept:
    run = msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, procedure=Procedure(iterations=50)))
    return Swept(summarize(entry_of(run, Path())), skipped or {})


def report_of(measured: Swept, pictures=()) -> str:
    diagnosis = diagnosed_from_record(of_own_program(measured.summary))
    return markdown(sweep_document(measured, diagnosis, pictures))


def a_diagnosis(**changes) -> Run:
    """Steps that cost 10 ms whatever their size, and no room for the largest; waiting takes 40 % of a step."""
    cases = [({"batch_size": size, "num_workers": 0, "precision": "fp32"}, 0.01 + 1e-4 * size) for size in SIZES]
    return a_sweep(cases, phases=PHASES, status={3: Status.OUT_OF_MEMORY}, **changes)


def test_the_pattern_is_told_with_its_evidence():
    measured = swept(a_diagnosis())
    picture = charts.time_breakdown(sweep_rows(measured), "run x")
    text = report_of(measured, [Chart("time_breakdown", picture.title, picture, ".png")])
    assert "## On cuda:0 (a card)" in text
    assert re.search(r"\| 8 \| ok \| 740\.\d \| ±[\d.]+ % \| 10\.8 ms \| VALID \| [\d.]+ MiB \| 4\.32 ms \|", text)
    assert "| 512 | out of memory | – |" in text
    assert "Fastest: batch_size 128, precision" not in text, "an axis that does not vary"
    assert "Fastest: batch\\_size 128" in text or "Fastest: batch_size 128" in text
    assert (
        "\nNote: at batch_size 8, throughput is 13 % of the top; a step costs about 10.0 ms whatever its size" in text
    )
    assert "\n**The step waits for the loader: " in text
    assert "\n- evidence: data is 40 % of the step (9.12 ms)" in text
    assert "\n- try: num_workers=2,4,8; pin_memory=true" in text
    assert "\nBatch size 512 ran out of memory: it took 512 GiB of 80" in text
    assert "![Where the time of a training step goes](time_breakdown.png)" in text


def test_devices_are_compared_and_one_that_is_not_here_says_why():
    card = a_diagnosis()
    slow = [
        Case(case.workload, case.configuration, Placement("cpu")) for case in card.head.plan.cases
    ]  # fmt: skip
    ids = {old.case_id: new.case_id for old, new in zip(card.head.plan.cases, slow, strict=True)}
    trials = [
        msgspec.structs.replace(
            trial, case_id=ids[trial.case_id], trial_id=f"cpu-{trial.trial_id}",
            measurements=tuple(
                msgspec.structs.replace(m, values=tuple(4.0 * v for v in m.values)) if m.metric.endswith("_s") else m
                for m in trial.measurements
            ),
        )
        for trial in card.trials
    ]  # fmt: skip
    device = DeviceInfo("cuda", "cuda", "nvidia", 0, "a card", 80 * 10**9)
    both = a_run(
        [*card.trials, *trials], cases=[*card.head.plan.cases, *slow], machine=a_machine(devices=(device,))
    )  # fmt: skip
    text = report_of(swept(both, {"xpu": "device xpu is not here"}))
    assert (
        "cuda:0 beside the CPU: 4.00 [4.00, 4.00] times as fast at batch_size 8, "
        "4.00 [4.00, 4.00] times as fast at batch_size 32, " in text
    )
    assert "little for an accelerator" not in text
    assert "## Skipped\n\n- xpu: device xpu is not here" in text
    assert "## Pictures" not in text


def test_what_to_doubt_is_said_once_for_each_check():
    run = a_diagnosis()
    findings = tuple(
        a_finding("drift", Severity.WARNING, f"steps became {n} % slower", "measure again", case.case_id)
        for n, case in enumerate(run.head.plan.cases)
    )
    text = report_of(swept(msgspec.structs.replace(run, findings=findings)))
    assert text.count("measure again\n") == 1


def test_names_cannot_break_the_page():
    run = a_diagnosis()
    head = msgspec.structs.replace(run.head, name="a|b\n# <script>")
    text = report_of(swept(msgspec.structs.replace(run, head=head)))
    assert text.startswith("# Diagnosis of a\\|b \\# \\<script\\>\n")


def test_rows_have_equal_columns_and_none_for_what_is_missing():
    rows = sweep_rows(swept(a_diagnosis(), {"xpu": "not here"}))
    assert [(row["batch_size"], row["status"]) for row in rows] == [
        (8, "ok"), (32, "ok"), (128, "ok"), (512, "out_of_memory"), (None, "skipped"),
    ]  # fmt: skip
    assert len({tuple(row) for row in rows}) == 1
    assert rows[3]["throughput"] is None
    assert rows[0]["transfer_s"] is None, "which this run has not measured"
    assert rows[4]["message"] == "not here"

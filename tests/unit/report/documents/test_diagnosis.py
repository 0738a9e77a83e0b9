"""A diagnosis as it is printed, at 80 and 160 columns: the cause first, what was measured, and what to type."""

from pathlib import Path

import msgspec
import pytest
from build import a_case, a_trial
from evidences import SETTINGS, a_line, a_look, an_evidence
from results import GAIN, a_diagnosis

from torchstone.cli._output import diagnosis_json
from torchstone.core.errors import MissingError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Task
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import TriedRemedy, WhatIf
from torchstone.core.schema.trial import Disturbance, Disturber, Status
from torchstone.report.document import CommandLine
from torchstone.report.documents.diagnosis import diagnosis_document, limit_words
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal
from torchstone.report.rendering import write_markdown
from torchstone.workflows.diagnose.target import memory_cause


def shown(diagnosis, width=100, *, every=False, **files):
    return terminal(diagnosis_document(diagnosis, **files), width, every=every)


def test_what_helped_is_told_in_the_words_of_a_program_too():
    evidence = an_evidence(facts={"threads_in_effect": 16, "fused_optimizer": True})
    helped = TriedRemedy("threads", WhatIf({"threads": 2}), Judgement.BETTER, GAIN)
    diagnosis = a_diagnosis(evidence, tried=(helped,), applied=helped)
    assert "in code   OMP_NUM_THREADS=2, or torch.set_num_threads(2)" in shown(diagnosis)


@pytest.mark.parametrize("width", [80, 160])
def test_the_cause_comes_first_and_everything_fits(width):
    lines = shown(a_diagnosis(command="torchstone run mine.yaml --axis num_workers=4"), width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= 27 or width < 80
    text = " ".join(" ".join(lines).split())
    assert text.startswith("The step waits for the loader, and the loader for its source: ")
    assert "I/O bottleneck, " in " ".join(shown(a_diagnosis(), every=True).split())
    assert "3.82 [3.70, 3.94]" in text
    assert "remedy speed-up peak memory losses" in text
    assert "feed=resident (ceiling)" in text
    assert "With num_workers=4 it was measured 3.82 [3.70, 3.94] times as fast (99 % confidence)." in text
    assert "run with these settings: torchstone run mine.yaml --axis num_workers=4" in text
    assert "mine.py:10" in text
    advice = "a faster disk (SSD)"
    assert advice not in text, "what was measured to help comes first"
    assert advice in shown(a_diagnosis(), every=True), "what no setting changes stays advice"
    assert "more processes that load" not in text, "what was measured is not offered as mere advice"


def test_a_gain_that_is_not_known_is_not_told_as_one():
    wide = msgspec.structs.replace(GAIN, low=0.4 * GAIN.value, high=2.5 * GAIN.value)
    helped = TriedRemedy("precision", WhatIf({"precision": "bf16"}), Judgement.UNCLEAR, wide)
    text = " ".join(shown(msgspec.structs.replace(a_diagnosis(), applied=helped), width=200).split())
    unknown = "What precision=bf16 gains is not known: its interval is wider than ±50 %"
    assert f"{unknown}." in text
    assert "– times" not in text


def test_what_helped_another_cause_is_not_read_as_a_remedy_of_the_first():
    diagnosis = a_diagnosis()
    first = diagnosis.causes[0]
    other = msgspec.structs.replace(first, id="small_batch", title=Statement("small_batch", {"fixed_s": 0.01}))
    helped = TriedRemedy("small_batch", WhatIf({"batch_size": 64}), Judgement.BETTER, GAIN)
    text = shown(msgspec.structs.replace(diagnosis, causes=(first, other), applied=helped), width=200)
    assert "What was tried against another cause (" in text
    assert "): with batch_size=64 it was measured 3.82 [3.70, 3.94] times as fast" in " ".join(text.split())


@pytest.mark.parametrize(
    ("task", "said"), [(Task.TRAIN, "it still learns"), (Task.INFER, "its answers are still good")]
)
def test_what_changes_the_result_is_to_be_looked_at(task, said):
    diagnosis = a_diagnosis()
    workload = msgspec.structs.replace(diagnosis.case.workload, task=task)
    helped = TriedRemedy(
        "precision",
        WhatIf({"precision": "bf16"}),
        Judgement.BETTER,
        GAIN,
        loss=Statement("loss_apart", {"share": 0.01, "steps": 2}),
    )
    case = msgspec.structs.replace(diagnosis.case, workload=workload)
    text = shown(msgspec.structs.replace(diagnosis, case=case, applied=helped), width=200)
    assert f"it changes what is computed (1 % apart in 2 steps): check that {said}\n" in text


def test_what_to_type_is_one_line_however_long():
    command = f"torchstone run mine.yaml --device cpu {'--axis num_workers=4 ' * 5}".rstrip()
    document = diagnosis_document(a_diagnosis(command=command))
    assert [part.words for part in document.parts if isinstance(part, CommandLine)] == [command]
    assert f"  {command}\n" in terminal(document, 80), "or it cannot be copied"


def test_what_a_stranger_s_record_brings_cannot_steer_the_terminal():
    evidence = an_evidence(look=a_look(lines=(a_line(0.6, runs=300, waits=300, code="x\x1b[2J.item()"),)))
    out = shown(a_diagnosis(evidence, tried=(), applied=None))
    assert "\x1b" not in out
    assert "only a change of the code brings it" in out
    assert "estimated from its share, not measured" in " ".join(out.split())


def test_without_a_cause_the_pattern_is_told_all_the_same():
    out = shown(a_diagnosis(causes=(), tried=(), applied=None), every=True)
    assert out.startswith("No cause was found: ")
    assert "nothing found" in out
    assert "a step costs about 10.0 ms whatever its size" in " ".join(out.split())


def test_a_cause_whose_remedy_did_not_help_is_ruled_out():
    diagnosis = a_diagnosis()
    first, *rest = diagnosis.causes
    other = msgspec.structs.replace(first, id="other", title=Statement("something_else"), where=())
    none = msgspec.structs.replace(GAIN, value=1.0)
    in_vain = TriedRemedy("other", WhatIf({"pin_memory": True}), Judgement.SAME, none)
    text = shown(msgspec.structs.replace(diagnosis, causes=(first, other, *rest), tried=(*diagnosis.tried, in_vain)))
    assert "ruled out something_else: its remedy was measured, without effect" in " ".join(text.split())


def test_what_was_faster_at_a_first_look_is_not_told_as_slower():
    diagnosis = msgspec.structs.replace(a_diagnosis(), applied=None)
    for look, says in (
        (2.28, "gain not known: what was faster at a first look"),
        (0.9, "gain no setting that was tried"),
    ):
        tried = (TriedRemedy("loader", WhatIf({"batch_size": 4}), message=Statement("fits"), first_look=look),)
        assert says in " ".join(shown(msgspec.structs.replace(diagnosis, tried=tried)).split())


def test_the_page_that_was_written_is_folded():
    text = shown(a_diagnosis(), report=Path("a/performance_report.md"), every=True)
    assert "report    a/performance_report.md\n" in text


def test_the_page_has_all_that_is_known_of_it():
    page = markdown(diagnosis_document(a_diagnosis(command="torchstone run mine.yaml --axis num_workers=4")))
    assert page.startswith("# Diagnosis of mine\n")
    assert "\n**The step waits for the loader, and the loader for its source: " in page
    told = " ".join(shown(a_diagnosis(), every=True).split())
    assert "others compile=default: not measured: compiling takes long; --budget 120s or more tries it" in told
    assert "- usually: slow disk, too few workers, costly preprocessing" in page
    assert "| num_workers=4 | 3.82 [3.70, 3.94] | 1.12 GiB (+12 %) | the same |" in page
    assert "```\ntorchstone run mine.yaml --axis num_workers=4\n```" in page
    assert "computing is what limits\n" in page, "every cause has its evidence"
    assert "a step costs about 10.0 ms whatever its size" in page
    assert "- is the I/O time high? yes, 90 % of the step" in page
    assert "- is the utilization low? not known" in page
    assert "[x] batch sizes compared: 8, 32, 128, 512" in page
    assert "[ ] num_workers compared: 0 (tune --only num_workers)" in page
    assert "usual 60 to 80 %" in page


def test_the_page_is_written_through_no_file_in_its_way(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match="cannot be written"):
        write_markdown(tmp_path / "file" / "x" / "page.md", diagnosis_document(a_diagnosis()), tmp_path)


def test_names_cannot_break_the_page():
    page = markdown(diagnosis_document(a_diagnosis(about="a|b\n# <script>")))
    assert page.startswith("# Diagnosis of a\\|b \\# \\<script\\>\n")


def test_what_runs_out_of_memory_has_no_share_of_a_step():
    cause = memory_cause(a_case(SETTINGS), a_trial(status=Status.OUT_OF_MEMORY, measurements=()))
    assert limit_words(cause) == "no step came to its end"


def test_json_has_the_bound_of_each_cause():
    found = msgspec.json.decode(msgspec.json.encode(diagnosis_json(a_diagnosis())))
    assert found["kind"] == "diagnosis"
    assert found["causes"][0]["bound"]["high"] >= found["causes"][0]["bound"]["value"] > 1.0
    assert found["causes"][0]["title"]["text"] == "the step waits for the loader, and the loader for its source"
    assert found["applied"]["what_if"]["settings"] == {"num_workers": 4}


@pytest.mark.parametrize(
    ("cores", "cause", "is_hidden"),
    [
        (1.7, Disturber.PROCESSES, True),
        (0.13, Disturber.PROCESSES, False),
        (0.13, Disturber.WAITS, False),
        (0.13, Disturber.STEAL, True),
    ],
)
def test_beside_a_little_other_work_the_cause_is_named_and_beside_much_none_is(cores, cause, is_hidden):
    seen = Disturbance(disturbed=True, share=1.0, causes=(cause,), cores=cores, processes=(("gcc", cores),))
    diagnosis = msgspec.structs.replace(a_diagnosis(), disturbance=seen)
    assert diagnosis.is_hidden is is_hidden
    text = " ".join(shown(diagnosis).split())
    assert ("mine.py:10" in text) is not is_hidden
    waited = cause == Disturber.WAITS
    said = "threads waited for a free core" if waited else "other programs (gcc) used up to 0.13 CPU cores"
    assert (f"meanwhile {said}" in text) is not is_hidden


def test_what_helps_another_cause_folds_no_advice_on_the_first():
    diagnosis = a_diagnosis()
    advice = "a faster disk (SSD)"
    assert advice not in shown(diagnosis)
    other = tuple(msgspec.structs.replace(one, cause="small_batch") for one in diagnosis.tried)
    assert advice in " ".join(shown(msgspec.structs.replace(diagnosis, tried=other)).split())

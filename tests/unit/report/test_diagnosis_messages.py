"""Messages of diagnoses: places with their formats, and what a stranger's record may bring."""

from typing import Any

import pytest
from evidences import an_evidence

from torchstone.analysis.advice.causes import causes_of
from torchstone.core.schema.advice import Remedy, Statement
from torchstone.report import diagnosis_messages
from torchstone.report.diagnosis_messages import IN_CODE, MESSAGES, in_code, text, with_texts


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (Statement("phase_share", {"phase": "data", "share": 0.4, "time_s": 0.01}),
         "data is 40 % of the step (10.0 ms)"),
        (Statement("others_busy", {"others": 1.0, "threads": 1}),
         "1.0 cores were busy with other processes, and the step has 1 thread"),
        (Statement("others_busy", {"others": 1.5, "threads": 2}),
         "1.5 cores were busy with other processes, and the step has 2 threads"),
        (Remedy("num_workers", {"workers": (2, 4)}, "num_workers"), "num_workers=2,4"),
        (Statement("beside_the_cpu", {"device": "cuda:0", "gains": (
            Statement("times_as_fast", {"gain": (2.0, 1.9, 2.1), "batch_size": 8}),
            Statement("times_as_fast_with", {"gain": (2.0, 0.5, 9.0), "batch_size": 32, "settings": "precision bf16"}),
         )}), ("cuda:0 beside the CPU: 2.00 [1.90, 2.10] times as fast at batch_size 8, "
               "not known how many times as fast at batch_size 32 with precision bf16")),
        (Statement("varies", {"spread": (1.0, 0.8, 1.3), "trials": 3}),
         "throughput varies much: ±30.0 % over 3 trials"),
        (Statement("fits", {"rate": None}), "fits: – in one short trial"),
    ],
)  # fmt: skip
def test_places_are_filled_as_their_formats_say(statement, told):
    assert text(statement) == told


@pytest.mark.parametrize("value", [None, "{0.__class__}", (1, "x"), True, float("nan")])
def test_whatever_a_record_has_in_a_place_is_shown_and_nothing_breaks(value):
    class Every(dict[str, object]):
        def get(self, key, default=None):
            return value

    values: Any = Every()
    assert all(text(Statement(name, values)) for name in MESSAGES)


def test_what_has_no_message_is_shown_by_its_id():
    assert text(Statement("{0.__class__}", {"0": 1})) == "{0.__class__}"


def test_how_in_a_program_of_ones_own_is_known_of_some():
    assert in_code(Remedy("threads", {"threads": 2})) == "OMP_NUM_THREADS=2, or torch.set_num_threads(2)"
    assert in_code(Remedy("log_outside")) is None
    assert IN_CODE.keys() <= MESSAGES.keys()


def test_json_has_ids_values_and_the_text_beside_them():
    (cause,) = with_texts(causes_of(an_evidence()))
    assert cause["title"] == {"id": "computing", "values": {}, "text": "computing is what limits"}
    forward = cause["evidence"][0]
    assert (forward["id"], forward["values"]["phase"]) == ("phase_share", "forward")
    assert forward["text"] == "forward is 33 % of the step (16.5 ms)"
    assert {"id", "values", "axis", "text"} == cause["remedies"][0].keys()


def test_an_id_has_one_text():
    tables = {name: table for name, table in vars(diagnosis_messages).items() if name[0].isupper() and name.isupper()}
    beside = {"MESSAGES", "IN_CODE", "TO_DO"}  # what more is said of an id
    assert sum(len(table) for name, table in tables.items() if name not in beside) == len(MESSAGES)

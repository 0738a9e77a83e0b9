"""Which Cases are asked about on which cards, what one process answers, and what comes of its answers."""

from typing import Any

import pytest

from torchstone.analysis.memory_fit import FitRow, FitVerdict, limit_bytes
from torchstone.config.run_file import RunRequest
from torchstone.core.cards import card
from torchstone.core.errors import UsageError
from torchstone.core.schema.message import MemoryPrediction
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Outcome, Status
from torchstone.workflows import memory as prediction
from torchstone.workflows.memory import count_that_fit, tried_on
from torchstone.workflows.tune.specification import TuneRequest

GIB = 2**30


def a_request(*workloads):
    return RunRequest(workloads or (WorkloadRequest("train", "builtin:cnn", axes={"batch_size": (8, 16)}),))


def peak(batch, each=GIB):
    return PeakMemory(batch, batch * each, {"activations": batch * each}, "backward", batch * each)


class Launched:
    """Stands for the session: what is asked for is answered by a line through the batch."""

    def __init__(self, monkeypatch, each=GIB, answer=None):
        self.requests: list[Any] = []

        class Session:
            def __init__(self, procedure, models):
                self.launcher = None

            __enter__ = lambda self: self
            __exit__ = lambda *_: None

        def told(_launcher, request):
            self.requests.append(request)
            if answer is not None:
                return answer
            largest = tuple(peak(limit // each, each) if limit >= each else None for limit in request.limits_bytes)
            return MemoryPrediction(tuple(peak(batch, each) for batch in request.batches), largest)

        monkeypatch.setattr(prediction, "Session", Session)
        monkeypatch.setattr(prediction, "trace_peaks", told)

    def answer(self, request, *words):
        return prediction.answer_all(
            request, prediction.questions_of(request, [card(w) for w in words]), lambda _: None
        )


def test_cards_that_treat_a_case_alike_are_asked_about_once(monkeypatch):
    launched = Launched(monkeypatch)
    answer = launched.answer(a_request(), "a100-40gb", "a100-80gb", "h100", "mi300x")
    assert [(r.device.compute_capability, r.batches, len(r.limits_bytes)) for r in launched.requests] == [
        ("8.0", (8, 16), 2), ("9.0", (8, 16), 1), ("gfx942", (8, 16), 1)
    ]  # fmt: skip
    assert [row.card for row in answer.rows[:2]] == ["NVIDIA A100 SXM 40 GB"] * 2, "in the order asked"
    assert [row.largest.batch_size for row in answer.rows] == [36, 36, 72, 72, 72, 72, 172, 172]
    assert answer.axes == ("batch_size",)


def test_verdicts_leave_a_tenth_free(monkeypatch):
    answer = Launched(monkeypatch, each=GIB).answer(
        a_request(WorkloadRequest("train", "builtin:cnn", axes={"batch_size": (21, 22, 24, 25)})), "24gb"
    )
    assert [row.verdict for row in answer.rows] == [
        FitVerdict.FITS,
        FitVerdict.TIGHT,
        FitVerdict.TIGHT,
        FitVerdict.TOO_LARGE,
    ]
    assert limit_bytes(10 * GIB) == 9 * GIB


def test_why_nothing_can_be_told_is_kept(monkeypatch):
    ended = Outcome(Status.UNSUPPORTED, "it has no shapes")
    answer = Launched(monkeypatch, answer=ended).answer(a_request(), "t4")
    assert {row.why_not for row in answer.rows} == {ended}
    assert {row.verdict for row in answer.rows} == {FitVerdict.UNKNOWN}


def test_data_and_weights_need_not_be_here(monkeypatch):
    named = WorkloadRequest("train", "hf:bert", "csv:/nowhere/at/all.csv", {"weights": "pretrained"})
    launched = Launched(monkeypatch)
    launched.answer(a_request(named), "rtx4090")
    (request,) = launched.requests
    assert request.case.workload.data == "synthetic"
    assert request.case.workload.fixed["weights"] == "random"
    assert request.case.configuration["feed"] == "loader", "as real data are trained on"


def test_only_training_and_inference(monkeypatch):
    both = (WorkloadRequest("generate", "hf:gpt2"), WorkloadRequest("infer", "hf:gpt2"))
    assert [row.task for row in Launched(monkeypatch).answer(a_request(*both), "l4").rows] == ["infer"]
    with pytest.raises(UsageError, match="task generate: memory predicts train and infer only"):
        prediction.questions_of(a_request(both[0]), [card("l4")])


def test_precision_auto_is_what_the_card_has(monkeypatch):
    launched = Launched(monkeypatch)
    auto = WorkloadRequest("train", "builtin:cnn", axes={"precision": ("auto",)})
    answer = launched.answer(a_request(auto), "v100", "h100")
    assert [row.configuration["precision"] for row in answer.rows] == ["fp32", "bf16"]


def test_what_tune_would_try_on_a_card():
    request = TuneRequest(run=a_request(WorkloadRequest("train", "builtin:cnn")))
    ampere, volta = tried_on(request, card("a100-80gb")), tried_on(request, card("v100"))
    assert {one.case.configuration["precision"] for one in ampere.questions} == {"fp32", "tf32", "bf16"}
    assert {one.case.configuration["precision"] for one in volta.questions} == {"fp32", "fp16"}
    assert len(ampere.points) == 14 * 3
    row = FitRow("train", "builtin:cnn", "", 1, {"precision": "bf16"}, peak(1), peak(40))
    assert count_that_fit(ampere, [row]) == 6, "1, 2, 4, 8, 16, 32"
    assert (
        count_that_fit(ampere, [row, FitRow("train", "builtin:cnn", "", 1, {"precision": "fp32"}, peak(1), None)]) == 6
    )

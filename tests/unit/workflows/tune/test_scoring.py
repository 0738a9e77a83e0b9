import pytest
from build import a_case, a_trial, a_tune_spec

from torchstone.core.schema.answer import Constraints
from torchstone.core.schema.case import Placement
from torchstone.core.schema.quality import AnswerCounts
from torchstone.core.schema.search import Part, Probe
from torchstone.core.schema.trial import Measurement, Stage, Status
from torchstone.workflows.tune.answering import objective_value, reading_of, shortfall, worth_of


def test_less_latency_and_less_energy_are_worth_more():
    assert objective_value({"throughput": 100.0}, "throughput") == 100.0
    latencies = {"latency_per_batch_p50_s": 0.01, "latency_per_batch_p95_s": 0.03}
    assert objective_value(latencies, "latency") == pytest.approx(100.0), "a short probe knows no p95"
    assert objective_value({"energy_per_item_j": 0.5}, "energy") == 2.0
    assert objective_value({"throughput": 100.0}, "energy") is None, "an energy that nobody read is not free"


@pytest.mark.parametrize(
    ("error", "answers", "margin", "counts"),
    [
        (1e-6, None, 0.01, True),
        (2e-3, None, 0.01, False),
        (2e-3, AnswerCounts(1000, 999), 0.01, True),
        (2e-3, AnswerCounts(1000, 970), 0.01, False),
        (2e-3, AnswerCounts(1000, 970), 0.05, True),
        (2e-3, AnswerCounts(1000, 970, 900, 10, 20), 0.02, True),
        (2e-3, AnswerCounts(300, 300), 0.01, False),  # too few to know
    ],
)
def test_what_is_not_shown_to_be_as_good_is_worth_nothing(error, answers, margin, counts):
    first = a_trial(setup={"relative_output_error": [error]}, facts={"answers": answers})
    second = a_trial(setup={"relative_output_error": [error]})
    spec = a_tune_spec(constraints=Constraints(quality_margin=margin))
    reading = reading_of(first, Probe({}), spec)
    assert (reading.value is not None) == (reading.quality is None) == counts
    assert (reading_of(second, Probe({}), spec, answers).value is not None) == counts
    assert (worth_of([first, second], spec) is not None) == counts


def test_the_constraint_that_is_missed_most_is_named():
    values = {"peak_rss_bytes": 20.0, "latency_per_batch_p50_s": 0.3, "throughput": 50.0}

    def missed(**limits):
        return shortfall(values, a_tune_spec(constraints=Constraints(**limits)))

    assert missed(max_memory_bytes=20.0, max_latency_s=0.3, min_throughput=50.0) is None
    assert missed(max_memory_bytes=10.0, max_latency_s=0.1) == pytest.approx(("max-latency", 3.0))
    assert missed(min_throughput=100.0) == ("min-throughput", 2.0)
    values.pop("peak_rss_bytes")
    assert missed(max_memory_bytes=10.0) is None, "what is not known is not held against it"


def test_device_memory_counts_before_the_hosts():
    reserved = Measurement("peak_reserved_bytes", Stage.STEADY, (7e9,))
    resident = Measurement("peak_rss_bytes", Stage.STEADY, (1e9,))
    probe = Probe({"batch_size": 8})
    assert reading_of(a_trial(more=[reserved, resident]), probe, a_tune_spec()).peak_bytes == 7e9
    assert reading_of(a_trial(more=[resident]), probe, a_tune_spec()).peak_bytes == 1e9
    on_a_card = a_tune_spec(base=a_case(a_tune_spec().base.configuration, placement=Placement("cuda")))
    assert reading_of(a_trial(more=[resident]), probe, on_a_card).peak_bytes is None, "the host's is not the card's"


def test_a_trial_that_failed_has_no_value_and_a_part_keeps_to_every_constraint():
    failed = reading_of(a_trial(status=Status.OUT_OF_MEMORY), Probe({}), a_tune_spec())
    assert failed.value is None
    assert failed.status == Status.OUT_OF_MEMORY
    strict = a_tune_spec(constraints=Constraints(min_throughput=1e12))
    assert not reading_of(a_trial(), Probe({}), strict).allowed
    assert reading_of(a_trial(), Probe({}, Part.LOADER), strict).allowed, "a limit is on the whole step"


def test_less_memory_is_worth_more_and_that_of_the_files_alone_counts_first():
    assert objective_value({"peak_rss_bytes": 4.0}, "memory") == 0.25
    assert objective_value({"peak_rss_bytes": 4.0, "peak_reserved_bytes": 2.0}, "memory") == 0.5
    assert objective_value({"peak_rss_bytes": 4.0, "loaded_peak_bytes": 0.5}, "memory") == 2.0

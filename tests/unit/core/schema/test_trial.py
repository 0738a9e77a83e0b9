"""Which trials stand behind a number."""

import pytest
from build import a_trial

from torchstone.core.schema.trial import REPLICATE_COLUMNS, Purpose, Status, ended_well, estimation_trials, replicates

GOOD = a_trial(trial_id="good")
PROBE = a_trial(trial_id="probe", purpose=Purpose.PROBE)
FAILED = a_trial(trial_id="failed", status=Status.CRASHED)


def test_replicates_are_what_no_search_chose_however_they_ended():
    assert replicates([GOOD, PROBE, FAILED]) == (GOOD, FAILED)
    assert ended_well([GOOD, PROBE, FAILED]) == (GOOD, PROBE)


@pytest.mark.parametrize(
    ("taken", "kept"),
    [([GOOD, PROBE], (GOOD,)), ([PROBE], (PROBE,)), ([PROBE, FAILED], (FAILED,)), ([], ())],
)
def test_probes_count_only_where_there_is_nothing_else(taken, kept):
    assert estimation_trials(taken) == kept


def test_the_index_has_the_same_words():
    assert {"status": str(GOOD.outcome.status), "purpose": str(GOOD.purpose)} == REPLICATE_COLUMNS

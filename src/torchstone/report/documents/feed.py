"""What fed the batches of a case, in words: a loader with its workers, or a few batches kept on the device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torchstone.analysis.advice.feeding import own_data
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.plugins.choices import has_end

_GIVEN = "loader:"  # how the data of `torchstone.measure` begins


def fed_words(cases: Sequence[CaseSummary], varying: Collection[str] = ()) -> list[str]:
    """Return a line on what fed these Cases of one workload, or one for each way of feeding; none if it is not known.

    `varying`: the columns of their table, which tell what the line then does not.
    """
    told: dict[str, None] = {}
    shared = feed_facts(*cases)  # a Case that failed tells nothing of data that all have
    for case in cases:
        facts = shared if (own := feed_facts(case)) == Facts() else own
        if (line := fed_by(case.workload, case.configuration, facts, varying)) is not None:
            told[line] = None
    return list(told)


def feed_facts(*cases: CaseSummary) -> Facts:
    """Return the facts of the first trial that tells of the user's own data; none where no trial does."""
    trials = (own_data(trial.facts) for case in cases for trial in case.trials)
    return next((facts for facts in trials if facts != Facts()), Facts())


def fed_by(
    workload: Workload, configuration: Mapping[str, Scalar], facts: Facts, varying: Collection[str] = ()
) -> str | None:
    """Return what fed a Case; None where its record does not tell, as those of other tools do not.

    What `facts` of a trial tell of a user's own data is used where they are there.
    """
    feed = "loader" if workload.task == Task.LOAD else configuration.get("feed")
    if feed == "resident":
        is_real = has_end(workload.data) or facts.own_data is not None  # training would wait for its loader
        return "feed resident (loading not measured)" if is_real else "feed resident"
    if feed != "loader":
        return None
    now, own = configuration.get("num_workers") or 0, facts.own_num_workers
    aside = f" (its own: {own})" if own is not None and own != now else ""
    return "feed loader" if "num_workers" in varying else f"feed loader, num_workers {now}{aside}"


def data_words(workload: Workload, facts: Facts) -> str:
    """Return what the batches are made of: "digits", "the SlowSet of load()", "synthetic"."""
    data = workload.data
    if data.startswith(_GIVEN):
        return f"the {data.removeprefix(_GIVEN)} that was given"
    if facts.own_data is not None:
        return f"the {facts.own_data} of {workload.model.rpartition(':')[2]}()"
    if data == "example" and facts.example_tokens is not None:
        return f"synthetic sentences of {facts.example_tokens} tokens"
    if data == "example":
        return "the example batch"
    return data

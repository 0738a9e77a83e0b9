"""Cases of one run that were measured on several machines: their ratio is one of machines, too."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import UNLIKE_NODES
from torchstone.plugins.protocols import Check

_NAMED = 8


class SeveralMachines:
    """Fires on a run that was merged from jobs on machines of different kinds and, milder, of one kind.

    So it does on trials whose ranks were on nodes of different kinds.
    """

    describes = "cases measured on several machines, by jobs of a cluster"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for machines of several kinds, information for several of one kind."""
        unlike = (facts for trial in run.trials if (facts := trial.facts.get(UNLIKE_NODES)) is not None)
        if (kinds_of_nodes := next(unlike, None)) is not None:
            message = f"the ranks of a trial were on nodes of several kinds: {kinds_of_nodes}"
            advice = "all wait for the slowest; ask for nodes of one kind: --constraint or --partition"
            yield Finding("several_machines", Severity.WARNING, message, advice, "run")
        machines = run.head.machines
        hosts = list(dict.fromkeys(machine.host.hostname for machine in machines))
        kinds = list(dict.fromkeys(map(_kind, machines)))
        if len(kinds) > 1:
            message = f"measured on {len(kinds)} kinds of machines: {'; '.join(kinds[:_NAMED])}"
            advice = "ask for machines of one kind: --partition, --constraint, --gres or --accelerator-type"
            yield Finding("several_machines", Severity.WARNING, message, advice, "run")
        elif len(hosts) > 1:
            message = f"measured on {len(hosts)} machines of one kind: {', '.join(hosts[:_NAMED])}"
            advice = "put cases that are compared with each other into one job: --cases-per-job"
            yield Finding("several_machines", Severity.INFO, message, advice, "run")


def _kind(machine: Machine) -> str:
    """Return processor and accelerators of a machine in words."""
    names = [device.name for device in machine.devices if device.kind != "cpu"]
    return " + ".join(dict.fromkeys([machine.host.processor or machine.host.hostname, *names]))


PLUGIN: Check = SeveralMachines()

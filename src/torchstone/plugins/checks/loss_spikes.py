"""Single steps whose loss is far outside the noise around them: the training is close to instability."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.stats.stability import has_diverged, spikes
from torchstone.plugins.checks._losses import curves, steadier
from torchstone.plugins.protocols import Check


class LossSpikes:
    """Fires where the losses of more than half of the trials have spikes. Timings are as good as any: it only tells."""

    describes = "single training losses far outside the noise around them"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a remark a Case, with where the first spike was; a loss that diverged has its own finding."""
        for case_id, case, losses in curves(run):
            found = [spikes(one) for one in losses if not has_diverged(one)]
            leaping = [steps for steps in found if steps]
            if len(leaping) > len(losses) / 2:
                count = max(map(len, leaping))
                several = f"spiked {count} times" if count > 1 else "spiked once"
                first = min(steps[0] for steps in leaping) + 1
                message = f"the loss {several} in {max(map(len, losses))} steps, first in step {first}"
                yield Finding("loss_spikes", Severity.INFO, message, steadier(case, run), case_id)


PLUGIN: Check = LossSpikes()

"""The public door of plug-ins: what `from torchstone.extend import …` gives stays, wherever it is kept inside."""

from torchstone.plugins.machine_protocols import *  # noqa: F403
from torchstone.plugins.protocols import *  # noqa: F403

"""Where stored runs are: an output folder, or a team's store."""

from __future__ import annotations

from pathlib import Path

from torchstone.storage.team.address import Team

Place = Path | Team

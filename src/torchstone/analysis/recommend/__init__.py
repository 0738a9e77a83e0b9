"""Which hardware and which settings, from all that is stored; and how a case's figures moved over time."""

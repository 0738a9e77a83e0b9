"""Two Cases live at once, taking turns, until it is known whether they differ."""

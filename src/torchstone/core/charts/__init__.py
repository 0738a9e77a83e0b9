"""Charts: Vega-Lite with the looks of ours, and the file that is drawn of it."""

"""Charts: a typed specification, its Vega-Lite, and the file that is drawn of it."""

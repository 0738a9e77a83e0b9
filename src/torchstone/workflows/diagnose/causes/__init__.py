"""Each file looks for causes of one sort in the Evidence. Shares are of the step; `found` holds those found before."""

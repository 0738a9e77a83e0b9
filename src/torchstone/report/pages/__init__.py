"""Pages over a store of runs, for `torchstone serve`: lists, a run, a comparison, a history, findings."""

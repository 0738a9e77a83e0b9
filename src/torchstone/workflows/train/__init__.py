"""Training to an end, and judging what came of it: the folder of a training, its metrics, its evaluation."""

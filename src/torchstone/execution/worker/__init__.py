"""What runs in the process of a trial: `python -m torchstone.execution.worker once|template`."""

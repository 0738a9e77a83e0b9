"""What runs in the process of a trial: `python -m torchstone.worker once|template`."""

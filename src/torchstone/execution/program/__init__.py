"""Somebody's own program, measured as it is: `torchstone run -- python train.py`."""

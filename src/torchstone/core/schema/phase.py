"""Phases: the named parts of a step. Those that an engine marks, in their order, and the rest of the step."""

from __future__ import annotations

DATA = "data"  # waiting for the next batch
TRANSFER = "transfer"  # bringing it to the device; a batch that is there already has none
PREFILL = "prefill"  # the whole prompt in one pass, which gives the first token
DECODE = "decode"  # the further tokens, a pass each
FORWARD = "forward"  # the model and its loss
BACKWARD = "backward"
OPTIMIZER = "optimizer"  # clipping, the update, and clearing the gradients
REST = "rest"  # what lies between the phases: the loop itself
PHASES = (DATA, TRANSFER, PREFILL, DECODE, FORWARD, BACKWARD, OPTIMIZER, REST)

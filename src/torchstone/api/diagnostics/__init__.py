"""`torchstone.Diagnostics`: one model at hand over batch sizes and devices, with pictures and a report."""

"""The run sheet of an accelerator: what is done on it, what is expected, and what came of it.

`benchmarks/accelerator.py` is the program. `sheet.py` holds the steps as data, `expecting.py` judges their figures,
`driving.py` gives each step a process of its own, `results.py` keeps what was measured. These need the standard library
alone; what a step does is imported in its own process (`one_step.py`).
"""

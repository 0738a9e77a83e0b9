"""Python imports this before the program, as its folder is on PYTHONPATH: hooks wait for torch to be imported."""

from __future__ import annotations

import os
import sys


def _the_next_sitecustomize() -> None:
    """Run the sitecustomize that this one hides, as if it were not here."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    paths = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "TORCHSTONE_PROGRAM" in os.environ:
    try:
        import _torchstone_hooks  # type: ignore[import-not-found]  # beside this file

        _torchstone_hooks.wait_for_torch()
    except Exception as fault:  # the program matters more: it runs on unmeasured, and torchstone says that it did
        print(f"torchstone: no hooks: {fault!r}", file=sys.stderr)
_the_next_sitecustomize()

"""Python imports this before the program, as its folder is on PYTHONPATH: hooks wait for torch to be imported."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from typing import Any


class _WaitingForTorch:
    """A finder that has others find torch, and the hooks installed when it has been imported.

    A library may ask first whether there is a torch, and import it later: transformers, datasets and accelerate do.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        finds = [getattr(one, "find_spec", None) for one in sys.meta_path if one is not self]  # as Python's import
        spec = next((found for find in finds if find and (found := find(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                loader.exec_module = execute
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    _torchstone_hooks.install(module)

            loader.exec_module = exec_module
        return spec


def _the_next_sitecustomize() -> None:
    """Run the sitecustomize that this one hides, as if it were not here."""
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

        _torchstone_hooks.prepare()
        if "torch" in sys.modules:
            _torchstone_hooks.install(sys.modules["torch"])
        else:
            sys.meta_path.insert(0, _WaitingForTorch())
    except Exception as fault:  # the program matters more: it runs on unmeasured, and torchstone says that it did
        print(f"torchstone: no hooks: {fault!r}", file=sys.stderr)
_the_next_sitecustomize()

"""`py:path.py:function` and `py:package.module:function`: the user's own model, loss and optimizer.

What the function may return is written at the top of _example.py. Packages are looked for in the working folder first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torchstone.errors import UsageError
from torchstone.extend import InputSpec, LoadedModel, ModelCard, ModelSource
from torchstone.models import _py_source
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Workload


class Own:
    """Model source `py`. The function is found without running it; it runs, without arguments, in each trial."""

    describes = "your own model: py:path.py:function or py:package.module:function"

    def names(self) -> Iterable[tuple[str, str]]:
        return ()

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        if options:
            raise UsageError(f"py:{name}: takes no option, and got {', '.join(options)}")
        _py_source.find(name)
        return ModelCard("sample", InputSpec("own"), "custom", {"weights": "own", "source": "py"}, own=True)

    def preload(self, name: str) -> None:
        """Nothing: the user's code may open a device, and a template must not hold one."""

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.models import _example, _user_code

        returned = _user_code.call(name, _py_source.find(name))
        parts = _example.parts_of(f"py:{name}", returned)
        facts: dict[str, Scalar] = {"parameters": sum(p.numel() for p in parts.module.parameters()), "weights": "own"}
        return LoadedModel(
            parts.module, parts.forward, parts.loss, InputSpec("own"), parts.example, parts.optimizer, facts=facts
        )


PLUGIN: ModelSource = Own()

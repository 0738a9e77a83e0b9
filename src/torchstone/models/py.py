"""`py:path.py:function` and `py:package.module:function`: the user's own model, loss and optimizer.

What the function may return is written at the top of _example.py. Packages are looked for in the working folder first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from torchstone.errors import UsageError
from torchstone.extend import ModelSource
from torchstone.models import _py_source
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Workload
from torchstone.terms.model import InputSpec, LoadedModel, ModelCard


class Own:
    """Model source `py`. The function is found without running it; it runs, without arguments, in each trial."""

    describes = "your own model: py:path.py:function or py:package.module:function"

    def names(self) -> Iterable[tuple[str, str]]:
        return ()

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        if options:
            raise UsageError(f"py:{name}: takes no option, and got {', '.join(options)}")
        file = _py_source.file_of(_py_source.find(name))
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else None
        fixed: Mapping[str, Scalar] = {"weights": "own", "source": "py"}
        return ModelCard("sample", InputSpec("own"), family="custom", fixed=fixed, own=True, code_sha256=digest)

    def preload(self, name: str) -> None:
        """Import the well-known libraries that the user's file names, and nothing of the user's own."""
        from torchstone.models import _known_imports

        source = _py_source.file_of(_py_source.find(name))
        if source is not None:
            _known_imports.import_known(source)

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.models import _user_code

        return self.adopt(_user_code.call(name, _py_source.find(name)), f"py:{name}")

    def adopt(self, returned: Any, where: str) -> LoadedModel:
        """Make a model of what a user's function returned, or of what `torchstone.measure` was given."""
        from torchstone.models import _example

        parts = _example.parts_of(where, returned)
        facts: dict[str, Scalar] = {"parameters": sum(p.numel() for p in parts.module.parameters()), "weights": "own"}
        return LoadedModel(
            parts.module, parts.forward, parts.loss, InputSpec("own"), parts.example, parts.optimizer, facts=facts
        )


PLUGIN: ModelSource = Own()

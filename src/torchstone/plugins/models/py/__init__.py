"""`py:path.py:function` and `py:package.module:function`: the user's own model, data, loss and optimizer.

What the function may return is written at the top of returned.py. Packages are looked for in the working folder
first, then in its `src`; a file in a package is imported as a part of it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Workload
from torchstone.core.schema.model import InputSpec, LoadedModel, ModelCard
from torchstone.plugins.models.py import arguments as call_arguments
from torchstone.plugins.models.py.arguments import SCRIPT_ARGUMENTS
from torchstone.plugins.models.py.function_source import file_of, find
from torchstone.plugins.protocols import ModelSource

_ARGUMENT = "argument_"  # what the user's function is called with is part of the Workload, under this and its name
_FAMILY = "family"


class Own(ModelSource):
    """Model source `py`. The function is found without running it; it runs in each trial.

    Options are its arguments; `family` is everybody's: what the model is listed as. `script_arguments` are the words
    that its module finds in sys.argv, as typed: "--lr 0.1". An argument called `device` that
    nothing is said of gets the CPU: torchstone itself moves the model.
    """

    describes = "your own model: py:path.py:function or py:package.module:function"

    def names(self) -> Iterable[tuple[str, str]]:
        return ()

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        target = find(name)
        arguments = {key: value for key, value in options.items() if key not in (_FAMILY, SCRIPT_ARGUMENTS)}
        call_arguments.check_arguments(name, target, arguments)
        file = file_of(target)
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else None
        fixed: dict[str, Scalar] = {"weights": "own", "source": "py"}
        fixed.update((f"{_ARGUMENT}{key}", value) for key, value in arguments.items())
        if SCRIPT_ARGUMENTS in options:
            fixed[SCRIPT_ARGUMENTS] = _split(options[SCRIPT_ARGUMENTS])
        family = str(options.get(_FAMILY, "custom"))
        return ModelCard("sample", InputSpec("own"), family=family, fixed=fixed, own=True, code_sha256=digest)

    def preload(self, name: str) -> None:
        """Import the well-known libraries that the user's file names, and nothing of the user's own."""
        from torchstone.plugins.models.py.known_imports import import_known

        source = file_of(find(name))
        if source is not None:
            import_known(source)

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.plugins.models.py import user_code

        given = {k.removeprefix(_ARGUMENT): v for k, v in workload.fixed.items() if k.startswith(_ARGUMENT)}
        script = str(workload.fixed.get(SCRIPT_ARGUMENTS, ""))
        model = self.adopt(user_code.call(name, find(name), given, script), f"py:{name}")
        if model.tokenizer is None and workload.data != "example":
            raise UsageError(
                f"py:{name}: returns no tokenizer to read {workload.data} with: leave out --data, or return "
                "(module, tokenizer, optimizer, loss)"
            )
        if model.tokenizer is not None and workload.data == "example":
            model.facts.example_tokens = 128
        return model

    def adopt(self, returned: Any, where: str) -> LoadedModel:
        """Make a model of what a user's function returned, or of what `torchstone.measure` was given."""
        from torchstone.plugins.models.py.adopting import adopted

        return adopted(where, returned)

    @staticmethod
    def loading() -> bool:
        """Say whether this process is importing or calling a user's function just now."""
        from torchstone.plugins.models.py import user_code

        return user_code.loading()

    @staticmethod
    def spelled(function: object) -> str:
        """Return `path.py:function` or `package.module:function` of a function. Raises UsageError if it has none."""
        return call_arguments.spelled(function)


def _split(words: Scalar) -> str:
    """Return the words of a script. Raises UsageError for a quotation mark that is not closed."""
    try:
        shlex.split(str(words))
    except ValueError as error:
        raise UsageError(f"--option {SCRIPT_ARGUMENTS}={words}: {str(error).lower()}") from error
    return str(words)


PLUGIN: ModelSource = Own()

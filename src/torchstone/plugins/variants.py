"""What computes a model in place of eager mode in fp32, and which of it cannot be: torch is not imported for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchstone.core.schema.axis import AXES, EAGER, UNQUANTIZED, VARIANT_AXES, Scalar
from torchstone.plugins import registry
from torchstone.plugins.protocols import Runtime

_OF_EAGER: tuple[str, ...] = ("int8-dynamic",)


class RuntimeVariant(NamedTuple):
    """What computes in place of eager mode in fp32."""

    runtime: str
    quantization: str = UNQUANTIZED

    def __str__(self) -> str:
        """Return its settings as they are typed."""
        axes = ("runtime", self.runtime, EAGER), ("quantization", self.quantization, UNQUANTIZED)
        return ", ".join(f"{axis}={value}" for axis, value, default in axes if value != default)


def variant_in(configuration: Mapping[str, Scalar]) -> RuntimeVariant | None:
    """Return what a Configuration asks for; None: eager mode, in no quantized format."""
    variant = RuntimeVariant(*(str(configuration.get(axis, AXES[axis].default)) for axis in VARIANT_AXES))
    return None if variant == RuntimeVariant(EAGER) else variant


def axis_conflict(configuration: Mapping[str, Scalar]) -> str | None:
    """Return why the axes of a Configuration cannot go together; None where nothing is known against it."""
    variant = variant_in(configuration)
    if variant is None:
        return None
    torchs_own = {"sdpa": "auto", "channels_last": False} if variant.runtime != EAGER else {}
    for axis, only in ({"precision": "fp32", "compile": "off"} | torchs_own).items():
        if configuration.get(axis, only) not in (only, AXES[axis].default):
            return f"{variant}, {axis}={configuration[axis]}: not possible together"
    known = _OF_EAGER
    if variant.runtime != EAGER:
        if variant.runtime not in registry.names("runtimes"):
            return None  # of a package that another machine has
        runtime: Runtime = registry.load("runtimes", variant.runtime)
        known = runtime.quantizations
    if variant.quantization in (UNQUANTIZED, *known):
        return None
    return f"{variant}: runtime={variant.runtime} has only quantization={', '.join((UNQUANTIZED, *known))}"

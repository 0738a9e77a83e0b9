"""A tiny network whose training step can be held up for a known time in any of its phases."""

from __future__ import annotations

import time
from typing import Any

import torch

from torchstone.core.schema.model import InputSpec, LoadedModel

PLACES = ("data", "forward", "backward", "optimizer")


class Stalled:
    """The network as a LoadedModel. `arm` says where it stalls; `took_s` is how long each stall truly was."""

    def __init__(self) -> None:
        self.took_s: list[float] = []
        self._place = ""
        self._kind, self._length_s = "sleep", 0.0
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        example = {"input": torch.randn(8, 16), "target": torch.randint(0, 4, (8,))}
        self.model = LoadedModel(module, _forward, self._loss, InputSpec("own"), example, optimizer=self._optimizer)

    def arm(self, place: str, kind: str, length_s: float) -> None:
        """Stall at that place from now on, by a sleep or a spin."""
        self._place, self._kind, self._length_s = place, kind, length_s
        self.took_s.clear()

    def after(self, place: str, result: Any) -> Any:
        """Return the result, later if it stalls there."""
        if place == self._place:
            began_s = time.perf_counter()
            if self._kind == "sleep":
                time.sleep(self._length_s)
            else:
                while time.perf_counter() - began_s < self._length_s:
                    pass
            self.took_s.append(time.perf_counter() - began_s)
        return result

    def _loss(self, network: Any, tensors: Any) -> Any:
        # Its gradient is computed last: it comes first.
        entered = _Entry.apply(tensors["input"], torch.zeros((), requires_grad=True), self)
        return self.after("forward", torch.nn.functional.cross_entropy(network(entered), tensors["target"]))

    def _optimizer(self, parameters: Any) -> torch.optim.Optimizer:
        stalled = self

        class Stalling(torch.optim.SGD):
            """SGD that stalls after everything it does in a step."""

            def zero_grad(self, set_to_none: bool = True) -> None:
                """Clear the gradients, then stall."""
                stalled.after("optimizer", super().zero_grad(set_to_none))

        return Stalling(parameters, lr=0.01)


class _Entry(torch.autograd.Function):
    """Where the input enters the network; its backward stalls."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, anchor: Any, stalled: Stalled) -> Any:  # noqa: ARG004  autograd looks at it
        """Pass the tensor on. The anchor needs a gradient, so that the backward pass comes by here."""
        ctx.stalled = stalled
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Stall, and give the anchor its gradient."""
        return ctx.stalled.after("backward", (None, torch.zeros(()), None))


def _forward(network: Any, tensors: Any) -> Any:
    return network(tensors["input"])

"""Stand-ins for libraries that have no build for the torch of these tests: their functions, with next to no network.

Each is a folder of files, to be put on the path. torch is imported where a network is built, and no sooner.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

NETS = """
import torch


class Net(torch.nn.Module):
    checkpointing = False

    def __init__(self, num_classes=1000):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, 2)
        self.head = torch.nn.Linear(8, num_classes)

    def set_grad_checkpointing(self, enable=True):
        self.checkpointing = enable

    def forward(self, x):
        return self.head(self.stem(x).mean((2, 3)))


class Sized(Net):
    def __init__(self, num_classes=1000, img_size=64, image_size=64):
        super().__init__(num_classes)
        side = img_size if img_size != 64 else image_size
        self.places = torch.nn.Parameter(torch.zeros(3, side, side))

    def forward(self, x):
        return super().forward(x + self.places)


class ManyHeads(Net):
    def forward(self, x):
        from collections import namedtuple

        out = super().forward(x)
        return namedtuple("Outputs", "logits aux")(out, out) if self.training else out
"""
TIMM = """
NAMES = ["tiny_net", "tiny_vit", "tiny_bare"]


class Config:
    num_classes, input_size, has_weights, hf_hub_id = 1000, (3, 64, 64), True, "timm/tiny_net.fake"


def list_models():
    return list(NAMES)


def is_model(name):
    return name.split(".")[0] in NAMES


def get_pretrained_cfg(name):
    arch, _, tag = name.partition(".")
    if tag not in ("", "fake"):
        raise RuntimeError(f"Invalid pretrained tag ({tag}) for {arch}.")
    return None if arch == "tiny_bare" else Config()


def create_model(name, pretrained=False, **settings):
    from timm import nets

    if pretrained:
        raise OSError("cannot reach the hub\\nsecond line")
    return {"tiny_net": nets.Net, "tiny_vit": nets.Sized, "tiny_bare": nets.Net}[name.split(".")[0]](**settings)
"""
TORCHVISION = """
import sys

NAMES = ["tiny_net", "tiny_vit", "googlenet"]


class Weights:
    meta = {"categories": ["?"] * 1000}

    @staticmethod
    def transforms():
        class Preset:
            crop_size = [64]

        return Preset()


class TinyWeights:
    DEFAULT = Weights()


def list_models(module=None):
    assert module is sys.modules[__name__]
    return list(NAMES)


def get_model_weights(name):
    return TinyWeights


def get_model(name, weights=None, aux_logits=None, init_weights=None, **settings):
    from torchvision import nets

    if weights is not None:
        raise OSError("no network")
    assert (aux_logits is False) == (name == "googlenet")
    return {"tiny_net": nets.Net, "tiny_vit": nets.Sized, "googlenet": nets.ManyHeads}[name](**settings)
"""


def write_timm(place: Path, text: str = TIMM) -> None:
    """Write a package `timm` into a folder."""
    (place / "timm").mkdir()
    (place / "timm" / "__init__.py").write_text(text)
    (place / "timm" / "nets.py").write_text(NETS)


def write_torchvision(place: Path) -> None:
    """Write a package `torchvision` into a folder."""
    (place / "torchvision").mkdir()
    (place / "torchvision" / "__init__.py").touch()
    (place / "torchvision" / "models.py").write_text(TORCHVISION)
    (place / "torchvision" / "nets.py").write_text(NETS)


WRITERS = {"timm": write_timm, "torchvision": write_torchvision}


def laid_aside(libraries: Iterable[str]) -> dict[str, ModuleType]:
    """Have nothing of these libraries be imported, and return what was: transformers imports the real ones."""
    wanted = set(libraries)
    return {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in wanted}

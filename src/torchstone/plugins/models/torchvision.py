"""`torchvision:<name>`: the image classifiers of torchvision, where the torchvision that belongs to torch is there.

torchvision has no build for every torch, so nothing of torchstone depends on it. Its tests here use a stand-in with
the same functions (list_models, get_model, get_model_weights): the real one was not there when they were written.
"""

from __future__ import annotations

from typing import Any

from torchstone.plugins.models._classifiers import ClassifierLibrary, Classifiers, HeadFacts, near
from torchstone.plugins.protocols import ModelSource

# Networks with further heads in training; the loss is that of the main one, so they are built without.
_ONE_HEAD: dict[str, Any] = {"aux_logits": False, "init_weights": True}
_MANY_HEADS = ("googlenet", "inception_v3")


def _tell(name: str) -> HeadFacts:
    from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        raise near("torchvision", name, known, "torchvision.models.list_models()")
    weights = models.get_model_weights(name).DEFAULT
    side = weights.transforms().crop_size[0]
    return HeadFacts(len(weights.meta["categories"]), 3, side, pretrained=True)


def _build(name: str, pretrained: bool, classes: int, side: int) -> object:
    from torchvision import models

    weights = models.get_model_weights(name).DEFAULT if pretrained else None
    wanted = _ONE_HEAD if name in _MANY_HEADS and not pretrained else {}
    try:
        return models.get_model(name, weights=weights, num_classes=classes, image_size=side, **wanted)
    except TypeError:  # only transformers take a size
        return models.get_model(name, weights=weights, num_classes=classes, **wanted)


PLUGIN: ModelSource = Classifiers(
    ClassifierLibrary(
        "torchvision",
        "torchvision.models",
        "install the torchvision that belongs to your torch: pip install torchvision, with torch's version held",
        (
            ("resnet50", "vision, 25.6 M parameters"),
            ("mobilenet_v3_large", "vision, 5.5 M parameters"),
            ("vit_b_16", "vision, 86.6 M parameters"),
        ),
        _tell,
        _build,
        any_head=False,
    )
)

"""`timm:<name>`: any image model of timm, by its own name, with random or its pretrained weights.

timm imports torchvision, which must be the build for the torch that is there: without it `timm` cannot be imported.
"""

from __future__ import annotations

from torchstone.core.errors import UsageError
from torchstone.plugins.models._classifiers import ClassifierLibrary, Classifiers, HeadFacts, near
from torchstone.plugins.protocols import ModelSource


def _tell(name: str) -> HeadFacts:
    import timm

    if not timm.is_model(name):
        raise near("timm", name, timm.list_models(), "timm.list_models()")
    try:
        config = timm.get_pretrained_cfg(name)
    except RuntimeError as error:  # a name.tag whose tag is not there
        raise UsageError(f"timm:{name}: {str(error).splitlines()[0]}") from error
    if config is None:
        return HeadFacts(1000, 3, 224, pretrained=False)
    channels, side, _ = config.input_size
    return HeadFacts(config.num_classes, channels, side, bool(config.has_weights), config.hf_hub_id)


def _build(name: str, pretrained: bool, classes: int, side: int) -> object:
    import timm

    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=classes, img_size=side)
    except TypeError:  # a network of convolutions takes any size, and has no such argument
        return timm.create_model(name, pretrained=pretrained, num_classes=classes)


PLUGIN: ModelSource = Classifiers(
    ClassifierLibrary(
        "timm",
        "timm",
        "pip install 'torchstone[vision]', and the torchvision that belongs to your torch",
        (
            ("efficientnet_b0", "vision, 5.3 M parameters"),
            ("convnext_tiny", "vision, 28.6 M parameters"),
            ("resnet50", "vision, 25.6 M parameters"),
            ("vit_base_patch16_224", "vision, 86.6 M parameters"),
        ),
        _tell,
        _build,
        any_head=True,
    )
)

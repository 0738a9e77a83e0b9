"""Part D of the run sheet (sheet.py): against loops written by hand; trainings; the tests; shares of the peak."""

from __future__ import annotations

from run_sheet.expecting import Expectation, at_least, at_most, equal, near_one, not_above, noted, one_of
from run_sheet.step import GPUS, H200, METAL, MINUTES, Step


def _by_hand(name: str) -> tuple[Expectation, ...]:
    tiny = name.endswith("_tiny")
    kinds = ("cpu",) if tiny else (*GPUS, "mps")
    ours = f"ours_over_hand_{name}"
    # Tiny steps on shared cores, beside whoever else is there: the right unit, and no more.
    asked = at_least(ours, 0.1) if tiny else near_one(ours, 0.01)
    if name == "generate":  # what the host holds up: to 1 %, or to what two loops by hand differ
        asked = not_above("off_generate", "allowed_generate")
    # Which are compared differs with --quick; one that fails ends the step.
    found = [asked.of(kinds=kinds).if_told(), noted(f"hand_{name}_s", "s").of(kinds=kinds)]
    found += [noted(f"ours_{name}_s", "s").of(kinds=kinds), noted(f"hands_apart_{name}").of(kinds=kinds)]
    if tiny:
        found.insert(1, at_most(ours, 10.0).of(kinds=kinds).if_told())
    return (*found, noted(f"peak_over_hand_{name}").of(kinds=kinds))


D = (
    Step(
        "D1", "loops written by hand against run", 270, 330, "what torchstone says is what it takes",
        "run_sheet.truth:compare",
        (at_least("compared", 1), *(one for name in ("resnet", "bert", "gpt2", "generate", "bert_tiny", "generate_tiny")
              for one in _by_hand(name))),
    ),
    Step(
        "D2", "train, resume, evaluate", 60, 110, "a training's state comes back onto the device",
        "run_sheet.trainings:resumed",
        (
            equal("exit_begun", 0), equal("exit_resumed", 0), equal("exit_whole", 0).if_told(),
            equal("exit_evaluate", 0).if_told(), noted("evaluated"), equal("outcome_resumed", "ok"),
            *(one_of("device_resumed", f"{kind}:0").of(kinds=(kind,)) for kind in (*GPUS, "mps", "cpu")),
            equal("epochs_after_resume", 3), at_most("losses_apart", 0.05).if_told(), at_least("accuracy", 0.5),
            noted("loss_whole"), noted("loss_resumed"),
        ),
    ),
    Step(
        "D3", "the unit and contract tests", 100, 180, "no test takes a machine without the device for granted",
        "run_sheet.suite:run",
        (
            equal("failed", 0), at_least("passed", 50), noted("failures"), noted("skipped"), noted("cut"),
            noted("without_a_library"), noted("libraries_absent"),
        ),
    ),
    Step(
        "D4", "the share of the peak of ViT-B, BERT and GPT-2", 95, 150,
        "what a training reaches of what the device keeps up; no rate is above its peak",
        "run_sheet.efficiency:compare",
        (
            at_most("largest_mfu", 1.0), equal("told", 3).of(kinds=GPUS), noted("told").of(kinds=("cpu",)),
            at_least("mfu_gpt2", 0.55).of(H200, ("cuda",)),
            *(noted(f"{what}_{name}") for name in ("vit", "bert", "gpt2", "bert_tiny")
              for what in ("status", "mfu", "mfu_of", "mfu_datasheet", "why")),
            *(noted(f"throughput_{name}", "items/s") for name in ("vit", "bert", "gpt2", "bert_tiny")),
        ),
        {"mps": METAL}, MINUTES,
    ),
)  # fmt: skip

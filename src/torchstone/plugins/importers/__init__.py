"""Importers that share the file of a topic, by it."""

BY_TOPIC = {
    "_scripts": ("configuration_sweep", "distilbert_suite", "gpu_image_benchmark", "gpu_report", "training_tree"),
    "_serving": ("aiperf", "guidellm", "vllm_bench"),
    "_tools": (*("llama_bench", "nvbench", "optimum_benchmark", "pytest_benchmark", "timm", "transformers_benchmark"),),
}

# torchstone: what there is to type. `make` alone lists it.
# Needs make and Python 3.11 or later, nothing else. Everything it installs is in .venv.

PYTHON ?= python3
GPU ?= cuda
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# Where this is set, each process that tests and benchmarks start would compile all of torchstone again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-dev setup-pre-commit demo smoke benchmark benchmark-gpu benchmark-all slurm slurm-cpu slurm-gpu report report-pdf report-pptx report-full quick-report manifest verify-manifest release test test-flow test-analysis test-reporting test-long acceptance mutations test-all lint format types docs \
        bench-overhead bench-ranks bench-startup bench-spread bench-peers bench-anatomy bench-search bench-tune bench-kill \
        bench-resume bench-sweep bench-records bench-reports bench-decode bench-load bench-intervals bench-loaders bench-ab bench-compare bench-peaks bench-diagnose \
        readme-picture bench-defaults bench-disturbed bench-memory accept-accelerator accelerator-bundle check-cuda-build clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ── the environment ─────────────────────────────────────────────────────────────────────────────────────────

setup: $(VENV)/.installed ## make the environment in .venv, with the torchstone command in it

setup-dev: $(VENV)/.installed-dev ## the same, with the libraries of the tests

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo "There is no '$(PYTHON)' here. Type: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12 (or where yours is)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "torchstone needs Python 3.11 or later, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Type: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12 (or where yours is)" >&2; exit 1; }
	@echo "Making the environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "Python could not make an environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

# torch first and alone: what depends on torch, installed before it, would pull another build of it.
$(VENV)/.installed-torch: $(VENV)/.made constraints.txt
	@echo "Installing torch (the first time takes minutes) ..."
	@$(INSTALL) torch
	@touch $@

$(VENV)/.installed: $(VENV)/.installed-torch pyproject.toml constraints.txt
	@echo "Installing torchstone ..."
	@$(INSTALL) --editable '.[models,data,quality,frames,report,serve]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need ..."
	@$(INSTALL) --editable '.[models,data,quality,frames,report,serve,docs,dev]'
	@touch $@

setup-pre-commit: setup-dev ## check every commit before it is made
	@$(INSTALL) 'pre-commit>=4'
	@$(BIN)/pre-commit install

# ── measuring ───────────────────────────────────────────────────────────────────────────────────────────────

demo: setup ## a first look: DistilBERT and ViT on this machine, two minutes
	@$(BIN)/torchstone run demo

smoke: setup ## does it work? the shortest run
	@$(BIN)/torchstone run smoke

benchmark: setup ## DistilBERT on the CPU
	@$(BIN)/torchstone run distilbert --device cpu

benchmark-gpu: setup ## DistilBERT on the GPU (another kind than NVIDIA: GPU=rocm, mps or xpu)
	@$(BIN)/torchstone run distilbert --device $(GPU)

KINDS := import json, sys; print(*dict.fromkeys(d["kind"] for d in json.load(sys.stdin)["machine"]["devices"]), sep=",")

benchmark-all: setup ## DistilBERT on the CPU and on every kind of GPU that is here, and how they compare
	@$(BIN)/torchstone run distilbert --device "$$($(BIN)/torchstone machine --json | $(BIN)/python -c '$(KINDS)')"
	@$(BIN)/torchstone recommend --model distilbert

# ── on a cluster ────────────────────────────────────────────────────────────────────────────────────────────

slurm: setup ## DistilBERT by jobs of SLURM (more options: SLURM="--partition gpu --time 30")
	@$(BIN)/torchstone submit distilbert --on slurm $(SLURM)

slurm-cpu: setup ## the same on CPUs
	@$(BIN)/torchstone submit distilbert --on slurm --device cpu $(SLURM)

slurm-gpu: setup ## the same on a GPU each (another kind than NVIDIA: GPU=rocm or xpu)
	@$(BIN)/torchstone submit distilbert --on slurm --device $(GPU) --gres gpu:1 $(SLURM)

# ── reports ─────────────────────────────────────────────────────────────────────────────────────────────────

report: setup ## the newest run as one HTML file
	@$(BIN)/torchstone report --format html

report-pdf: setup ## the newest run as PDF
	@$(BIN)/torchstone report --format pdf

report-pptx: setup ## the newest run as slides
	@$(BIN)/torchstone report --format pptx

report-full: setup ## the newest run in all formats
	@$(BIN)/torchstone report --format html,pdf,pptx,md,csv,json,png

quick-report: smoke report ## the shortest run and its report

# ── results to publish ──────────────────────────────────────────────────────────────────────────────────────

manifest: setup ## SHA256SUMS of outputs, for `sha256sum -c`
	@$(BIN)/torchstone manifest outputs

verify-manifest: setup ## is every file in outputs as it was?
	@$(BIN)/torchstone manifest outputs --verify

release: setup ## the latest run in the folder release: reports, figures, record, environment, README, SHA256SUMS
	@$(BIN)/torchstone release latest --output release

docs: setup-dev ## build the docs site into build/docs; a warning is an error
	@$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet --conf-dir docs . build/docs
	@echo "build/docs/index.html"

# ── tests ───────────────────────────────────────────────────────────────────────────────────────────────────

QUICK := tests/architecture tests/contract tests/docs tests/statistics tests/unit
WHOLE := tests/acceptance tests/faults tests/flow

test: setup-dev lint types ## lint, types, the tests of code, pages and statistics (under eight minutes)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not alone and not long' $(QUICK)

test-flow: setup-dev ## commands, features and faults for real; then what needs the machine for itself (a quarter of an hour)
	@$(BIN)/python -m pytest -n 3 --dist loadgroup -m 'not alone and not long' $(WHOLE)
	@$(BIN)/python -m pytest -n 0 -m 'alone and not long' $(WHOLE)

test-analysis: setup-dev ## the tests of what reads results
	@$(BIN)/python -m pytest tests/unit/analysis

test-reporting: setup-dev ## the tests of reports
	@$(BIN)/python -m pytest tests/unit/report tests/contract/test_documents.py tests/contract/test_terminal_pages.py

test-long: setup-dev ## the tests that measure for long, which `make test` leaves out (under half an hour)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m long

acceptance: setup-dev ## every feature of the seed documents, typed as its user would (under half an hour)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup tests/acceptance

mutations: setup-dev ## does a test fail where a feature, or what mended the accelerators, is taken away? (about an hour)
	@$(BIN)/python tests/acceptance/mutate.py

test-all: test test-flow test-long smoke ## all tests, then a real run on this machine

lint: setup-dev ## check style and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-cache --no-logo

format: setup-dev ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: setup-dev ## check the types
	@$(BIN)/mypy --no-error-summary

# ── benchmarks of torchstone's own claims ───────────────────────────────────────────────────────────────

bench-overhead: setup-dev ## the overhead of measuring
	@$(BIN)/python benchmarks/overhead.py

bench-ranks: setup-dev ## a trial of two ranks against a plain DDP script under torchrun (under eight minutes)
	@$(BIN)/python benchmarks/ranks.py

bench-startup: setup-dev ## how fast commands and trials start
	@$(BIN)/python benchmarks/startup.py

bench-spread: setup-dev ## how much runs of the same code differ, and whether the intervals cover it
	@$(BIN)/python benchmarks/spread.py

bench-peers: setup-dev ## the same work measured by other tools, in a separate environment
	@test -x benchmarks/peers/.venv/bin/python || benchmarks/peers/setup.sh
	@$(BIN)/python benchmarks/peers/run.py

bench-defaults: setup-dev ## the precision of one typed line, beside other tools in the same wall time
	@test -d benchmarks/peers/.pyperf || $(INSTALL) --target benchmarks/peers/.pyperf --no-deps 'pyperf==2.10.0'
	@$(BIN)/python benchmarks/defaults.py

bench-disturbed: setup-dev ## what one typed line answers beside planted disturbances (ten hours; goes on where it was ended)
	@$(BIN)/python benchmarks/disturbed.py

bench-anatomy: setup-dev ## whether a step's phases and a loader's rate are measured correctly
	@$(BIN)/python benchmarks/anatomy.py

bench-memory: setup-dev ## predicted peak memory against the allocator's count (under ten minutes)
	@$(BIN)/python benchmarks/memory_model.py

bench-decode: setup-dev ## whether prefill and decode are separated, and the cost of the prompt per token
	@$(BIN)/python benchmarks/decode.py

bench-load: setup-dev ## whether a load agrees with the latency mode, and goodput with a fine scan over rates
	@$(BIN)/python benchmarks/load.py

bench-peaks: setup-dev ## whether the search for the fastest product finds what a plain long scan finds
	@$(BIN)/python benchmarks/peaks.py

bench-ab: setup-dev ## how often ab is wrong on equal code, and how fast it detects 3 % (adds to benchmarks/data/aa.json)
	@$(BIN)/python benchmarks/aa.py --runs 4 --extra 0 >/dev/null
	@$(BIN)/python benchmarks/aa.py --runs 4 --extra 3

bench-compare: setup-dev ## how often compare is wrong: equal code under noise of every kind, simulated and recorded
	@$(BIN)/python benchmarks/compare.py

bench-loaders: setup-dev ## how fast our loaders are, beside a plain loop with the same decoding
	@$(BIN)/python benchmarks/loaders.py

bench-search: setup-dev ## how good the searchers are, and their cost relative to measuring everything
	@$(BIN)/python benchmarks/search.py

bench-tune: setup-dev ## one real tune on this machine against measuring everything
	@$(BIN)/python benchmarks/tune.py

bench-diagnose: setup-dev ## ten planted bottlenecks: is each found first, and is each predicted gain reached?
	@$(BIN)/python benchmarks/diagnose.py

bench-intervals: setup-dev ## coverage of the intervals of a run, simulated and replayed
	@$(BIN)/python benchmarks/intervals.py

bench-kill: setup-dev ## what is kept after a kill at any moment
	@$(BIN)/python benchmarks/kill.py

bench-resume: setup-dev ## sweeps killed a hundred times and resumed: is a trial lost or measured twice?
	@$(BIN)/python benchmarks/resume.py

bench-sweep: setup-dev ## the tool's own overhead in a sweep of 336 trivial trials
	@$(BIN)/python benchmarks/sweep.py

bench-records: setup-dev ## how fast 10,000 trials are listed and shown
	@$(BIN)/python benchmarks/records.py

readme-picture: setup-dev ## the README's pictures: of a real run and a real ab (on a machine that does nothing else)
	@PATH="$(abspath $(BIN)):$$PATH" python benchmarks/terminal.py docs/images/run.svg -- torchstone run -- python examples/train.py --batch_size 16
	@$(BIN)/torchstone ab distilbert --task infer --axis batch_size=4 --a precision=fp32 --b precision=bf16 --output-dir build/readme
	@$(BIN)/torchstone report latest --output-dir build/readme --plots build/readme >/dev/null
	@cp build/readme/ratios.svg docs/images/ab.svg

bench-reports: setup-dev ## how soon reports of 336 cases and of 10,000 trials are there, how large, in what memory
	@$(BIN)/python benchmarks/reports.py

# ── accelerators ────────────────────────────────────────────────────────────────────────────────────────────

accept-accelerator: setup-dev ## the run sheet on the GPU here, 36 minutes (another kind: GPU=rocm, mps, xpu or cpu; goes on where it was cut)
	@$(BIN)/python benchmarks/accelerator.py --device $(GPU)

accelerator-bundle: setup-dev ## this tree and wheels in one archive, for a machine with a GPU and no network
	@$(BIN)/python benchmarks/accelerator_bundle.py

check-cuda-build: setup-dev ## torch's CUDA build without a driver, in an environment of its own (several GB, half an hour)
	@$(BIN)/python benchmarks/cuda_build.py

clean: ## remove caches and builds; .venv and outputs stay
	@rm -rf dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

#!/usr/bin/env bash
# An environment for the peers, apart from torchstone's own: optimum-benchmark 0.6.0 does not run with transformers 5.
# torchstone's core goes in beside them, so that all measure the same model with the same torch and transformers.
set -euo pipefail
cd "$(dirname "$0")"
python3 -m venv .venv
pip=".venv/bin/python -m pip --disable-pip-version-check install -q"
$pip torch==2.13.0
$pip torch==2.13.0 'transformers==4.57.6' 'optimum-benchmark==0.6.0'
$pip torch==2.13.0 -e ../..

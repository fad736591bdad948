#!/usr/bin/env bash
# Build both distributions, check them, and use them in an environment that has nothing else.
set -euo pipefail
python=${1:-python3}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$python" -m venv "$made/tools"
"$made/tools/bin/pip" install --quiet --disable-pip-version-check build twine
"$made/tools/bin/python" -m build --outdir "$made/dist" . >/dev/null
"$made/tools/bin/python" -m build --outdir "$made/dist" bench >/dev/null
"$made/tools/bin/twine" check --strict "$made"/dist/*
"$python" -m venv "$made/venv"
"$made/venv/bin/pip" install --quiet --disable-pip-version-check "$made"/dist/*.whl
"$made/venv/bin/pip" check
cd "$made"
venv/bin/flfl --version
venv/bin/flfl data synth --sensors 6 --slots 200 --out made
venv/bin/flfl recover made/readings.csv --sensors made/sensors.csv --out filled.csv --effort quick --json >result.json
venv/bin/flfl-bench --help >/dev/null
test -s filled.csv

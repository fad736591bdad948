# `make demo` and `make test` set up what they need; `make setup` alone may be repeated at will.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: setup demo test slow lint docs clean

setup: .venv/core.stamp

.venv/core.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[report]'
	touch $@

.venv/dev.stamp: .venv/core.stamp bench/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable './bench[neural]'
	touch $@

demo: setup
	$(BIN)/flfl demo --out flfl-demo

lint: .venv/dev.stamp
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pip check

test: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

docs: setup
	$(BIN)/python -m flfl.cli.document docs/cli.md

slow: .venv/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow tests bench/tests

clean:
	rm -rf .venv flfl-demo

# `make demo` and `make test` set up what they need; `make setup` alone may be repeated at will.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
# Modules are compiled once, not by every process of a test.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo lint test slow docs wheels clean

setup: .venv/core.stamp

# Compiling all modules of all libraries takes longer than the demo; Python compiles what it needs.
# Both stamps depend on both pyproject files: either distribution names what the other needs.
.venv/core.stamp: pyproject.toml bench/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --no-compile --editable '.[report]'
	touch $@

.venv/dev.stamp: .venv/core.stamp
	$(INSTALL) --editable '.[dev]' --editable './bench[neural]'
	touch $@

demo: setup
	$(BIN)/flfl demo --out flfl-demo

# Both distributions: flfl (src, tests) and flfl-bench (bench).
lint: .venv/dev.stamp
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pip check

test: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

slow: .venv/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow tests bench/tests

# Both wheels, built and used in an environment that has nothing else.
wheels:
	tests/wheels.sh $(PYTHON)

# The site, into site/: drawings, the page of the command line, tutorials (run anew), all pages.
# A warning of mkdocs is an error, but not with --quiet, which counts none.
docs: export NO_MKDOCS_2_WARNING := 1
docs: .venv/dev.stamp
	$(BIN)/python docs/make_drawings.py
	$(BIN)/python docs/make_cli_page.py
	$(BIN)/python docs/make_tutorials.py
	$(BIN)/mkdocs build
	$(BIN)/python docs/check_site.py

clean:
	rm -rf .venv flfl-demo site

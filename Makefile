# Every target sets up what it needs in .venv, once, from the pinned lists in requirements/.
# A machine with Python 3.11 or newer, pip and make is enough.

PYTHON ?= python3
JOBS ?= auto
BIN := .venv/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --no-header --no-annotate --quiet
PYTEST := $(BIN)/python -m pytest --quiet --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test check check-deep mutate-options bench bench-scratchpad format lock

help:
	@echo "make demo        a run that is killed in the middle of a refund and goes on; offline, no key"
	@echo "make test        the tests, in parallel"
	@echo "make check       format, lint, types, layers, tests: what a change must pass"
	@echo "make check-deep  sweeps and slow groups"
	@echo "make mutate-options  every option taken out in turn: does a story notice?"
	@echo "make bench       the benchmarks, side by side with a bare loop"
	@echo "make bench-scratchpad  what a scratchpad keeps and costs: none, append-only, reorganised"
	@echo "make format      write the code as the formatter wants it"
	@echo "make lock        pin the newest versions of everything we depend on"

demo: .venv/.run
	@$(BIN)/windlass demo

test: .venv/.dev
	$(PYTEST) -n $(JOBS)

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -n $(JOBS)

check-deep: .venv/.deep
	$(PYTEST) -n $(JOBS) -m deep

mutate-options: .venv/.dev
	$(BIN)/python -m mutation.run

bench: .venv/.dev
	$(BIN)/python -m bench.run

bench-scratchpad: .venv/.dev
	@$(BIN)/python -m bench.scratchpad

format: .venv/.dev
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: .venv/.run
	$(LOCK) --upgrade --group setup -o requirements/run.lock
	$(LOCK) --upgrade --group setup --group dev -c requirements/run.lock -o requirements/dev.lock
	$(LOCK) --upgrade --group setup --group deep -c requirements/dev.lock -o requirements/deep.lock

# One after the other, also under `make -j`: they write to the same folder.
.venv/.run: requirements/run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Windlass needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@test -x $(BIN)/python || { echo "setting up .venv …"; $(PYTHON) -m venv .venv; }
	@test -x $(BIN)/uv || $(PIP) $$(grep '^uv==' requirements/run.lock) || echo "no uv here: going on with pip"
	@$(UV) -r requirements/run.lock || $(PIP) -r requirements/run.lock
	@$(UV) --no-deps --no-build-isolation -e . || $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev: requirements/dev.lock .venv/.run
	@$(UV) -r requirements/dev.lock || $(PIP) -r requirements/dev.lock
	@touch $@

.venv/.deep: requirements/deep.lock .venv/.dev
	@$(UV) -r requirements/deep.lock || $(PIP) -r requirements/deep.lock
	@touch $@

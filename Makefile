# Every target sets up what it needs in .venv, once, from the pinned lists in requirements/.
# A machine with Python 3.11 or newer, pip and make is enough. With PYTHON=… a target runs on that
# Python: in .venv where it is of the same version, else in a folder of its own such as .venv-3.13.

VERSION_OF = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV := .venv
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
  ifneq ($(wildcard .venv/bin/python),)
    ifneq ($(call VERSION_OF,.venv/bin/python),$(call VERSION_OF,$(PYTHON)))
      VENV := .venv-$(call VERSION_OF,$(PYTHON))
    endif
  endif
endif
PYTHON ?= python3
JOBS ?= auto
# A child process of a test that compiles the package first takes three times as long to start.
unexport PYTHONDONTWRITEBYTECODE
BIN := $(VENV)/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --no-header --no-annotate --quiet
PYTEST := $(BIN)/python -m pytest --quiet --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test options check check-deep check-stories mutate-options bench bench-scratchpad format lock prove-budgets prove-flow prove-kills prove-linear prove-options prove-projects

help:
	@echo "make demo        a run that is killed in the middle of a refund and goes on; offline, no key"
	@echo "make test        the tests, in parallel"
	@echo "make check       format, lint, types, layers, tests: what a change must pass"
	@echo "make check-deep  sweeps and slow groups"
	@echo "make check-stories PYTHON=…  the stories, abort and cancel on another Python"
	@echo "make mutate-options  every option taken out in turn: does a story notice?"
	@echo "make bench       the benchmarks, side by side with a bare loop"
	@echo "make bench-scratchpad  what a scratchpad keeps and costs: none, append-only, reorganised"
	@echo "make prove-budgets  500 generated trees of runs against their limits; writes bench/BUDGETS.md"
	@echo "make prove-flow  honest tasks and injections against flow control; writes bench/FLOW.md and docs/concepts/security.md"
	@echo "make prove-kills  kill sweeps at every place (CI samples them)"
	@echo "make prove-linear  every parser on texts made to be slow, 100 kB against 1 MB"
	@echo "make prove-options  10,000 sets of options for each door (CI tries 3,000)"
	@echo "make prove-projects  every command in every hostile project; writes bench/PROJECTS.md"
	@echo "make options     write what the option groups declare: index, types, flags, [agent], page"
	@echo "make format      write the code as the formatter wants it"
	@echo "make lock        pin the newest versions of everything we depend on"

demo: $(VENV)/.run
	@$(BIN)/windlass demo

test: $(VENV)/.dev
	$(PYTEST) -n $(JOBS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -n $(JOBS)

check-deep: $(VENV)/.deep
	$(PYTEST) -n $(JOBS) -m deep

check-stories: $(VENV)/.dev
	WINDLASS_CANCEL_EVERY=3 $(PYTEST) -n $(JOBS) tests/stories tests/cancel tests/testing/test_cancel_sweep.py

mutate-options: $(VENV)/.dev
	$(BIN)/python -m mutation.run

bench: $(VENV)/.dev
	$(BIN)/python -m bench.run

bench-scratchpad: $(VENV)/.dev
	@$(BIN)/python -m bench.scratchpad

prove-budgets: $(VENV)/.dev
	$(BIN)/python -m tests.loop.budget_trees 500 > bench/BUDGETS.md

prove-flow: $(VENV)/.dev
	$(BIN)/python -m tests.flow.measure --write

prove-kills: $(VENV)/.dev
	WINDLASS_PROVE_KILLS=1 $(PYTEST) -n $(JOBS) -m deep tests/crash tests/resources tests/audit tests/vault

prove-linear: $(VENV)/.dev
	WINDLASS_PROVE_LINEAR=1 $(PYTEST) -n 0 tests/hostile/test_linear.py

prove-options: $(VENV)/.dev
	WINDLASS_PROVE_OPTIONS=1 $(PYTEST) -n $(JOBS) -m deep tests/hostile/test_options.py

prove-projects: $(VENV)/.dev
	$(BIN)/python -m tests.hostile.project_proof > bench/PROJECTS.md

options: $(VENV)/.dev
	$(BIN)/python scripts/make_options.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: $(VENV)/.run
	$(LOCK) --upgrade --group setup -o requirements/run.lock
	$(LOCK) --upgrade --group setup --group dev -c requirements/run.lock -o requirements/dev.lock
	$(LOCK) --upgrade --group setup --group deep -c requirements/dev.lock -o requirements/deep.lock

# One after the other, also under `make -j`: they write to the same folder.
$(VENV)/.run: requirements/run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Windlass needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@test -x $(BIN)/python || { echo "setting up $(VENV) …"; $(PYTHON) -m venv $(VENV); }
	@test -x $(BIN)/uv || $(PIP) $$(grep '^uv==' requirements/run.lock) || echo "no uv here: going on with pip"
	@$(UV) -r requirements/run.lock || $(PIP) -r requirements/run.lock
	@$(UV) --no-deps --no-build-isolation -e . || $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	@$(UV) -r requirements/dev.lock || $(PIP) -r requirements/dev.lock
	@touch $@

$(VENV)/.deep: requirements/deep.lock $(VENV)/.dev
	@$(UV) -r requirements/deep.lock || $(PIP) -r requirements/deep.lock
	@touch $@

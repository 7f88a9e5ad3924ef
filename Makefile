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
LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --no-header --no-annotate --quiet --generate-hashes
# What builds a release and looks for advisories brings a pip of its own, and stays out of $(VENV).
TOOLS := $(VENV)-tools
PYTEST := $(BIN)/python -m pytest --quiet --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo demo-fleet demo-mcp test options check check-deep check-stories mutate-options bench bench-scratchpad conformance format lock docs pictures newcomer release sbom advisories prove-budgets prove-edits prove-fleet prove-flow prove-hostile prove-kills prove-linear prove-options prove-partial prove-projects prove-sandbox prove-search prove-trees prove-workflows

help:
	@echo "make demo        a run that is killed in the middle of a refund and goes on; offline, no key"
	@echo "make demo-fleet  three workers over a throwaway Postgres: one is killed, one drained; nothing is lost"
	@echo "make demo-mcp    a run with two published MCP servers, fetched from npm"
	@echo "make test        the tests, in parallel"
	@echo "make check       format, lint, types, layers, tests: what a change must pass"
	@echo "make check-deep  sweeps and slow groups"
	@echo "make check-stories PYTHON=…  the stories, abort and cancel on another Python"
	@echo "make mutate-options  every option taken out in turn: does a story notice?"
	@echo "make bench       the benchmarks, side by side with a bare loop"
	@echo "make bench-scratchpad  what a scratchpad keeps and costs: none, append-only, reorganised"
	@echo "make conformance  the kit of the Model Context Protocol, fetched from npm; writes bench/CONFORMANCE.md"
	@echo "make prove-budgets  500 generated trees of runs against their limits; writes bench/BUDGETS.md"
	@echo "make prove-edits  random edits of 480 real files, fetched from npm and Debian; writes bench/EDITS.md"
	@echo "make prove-fleet  workers killed, frozen and cut off over Postgres; 100,000 sleepers; writes bench/FLEET.md"
	@echo "make prove-flow  honest tasks and injections against flow control; writes bench/FLOW.md and docs/concepts/security.md"
	@echo "make prove-hostile  spoilt replies, journals and outputs, all of them (CI samples them)"
	@echo "make prove-kills  kill sweeps at every place (CI samples them)"
	@echo "make prove-linear  every parser on texts made to be slow, 100 kB against 1 MB"
	@echo "make prove-options  10,000 sets of options for each door (CI tries 3,000)"
	@echo "make prove-partial  partial values of 200 generated types at every place (CI samples them)"
	@echo "make prove-projects  every command in every hostile project; writes bench/PROJECTS.md"
	@echo "make prove-sandbox  10,000 hostile paths, 200 hostile commands and addresses, runs ended at every step; writes bench/SANDBOX.md"
	@echo "make prove-search  200 hostile patterns, random trees with and without ripgrep, 50,000 files; writes bench/SEARCH.md"
	@echo "make prove-workflows  workflows, worktrees, daemons and triggers killed; writes bench/WORKFLOWS.md"
	@echo "make prove-trees  500 generated trees of agents, their sums and budgets; writes bench/TREES.md"
	@echo "make options     write what the option groups declare: index, types, flags, [agent], page"
	@echo "make format      write the code as the formatter wants it"
	@echo "make docs        build the site of the documentation into site/; needs no network"
	@echo "make pictures    draw the pictures of the documentation, and photograph the trace page"
	@echo "make newcomer    what a new user types, step by step, in an empty account"
	@echo "make release     build wheel, sdist and SBOM, and try the wheel in empty environments"
	@echo "make sbom        list what a release is made of, as CycloneDX; part of make release"
	@echo "make advisories  compare the pinned versions with known vulnerabilities; needs the network"
	@echo "make lock        pin the newest versions of everything we depend on"

demo: $(VENV)/.run
	@$(BIN)/windlass demo

demo-fleet: $(VENV)/.dev
	@$(BIN)/python -m scripts.demo_fleet

demo-mcp: $(VENV)/.dev
	@$(BIN)/python -m scripts.demo_mcp

test: $(VENV)/.dev
	$(PYTEST) -n $(JOBS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --threads 2
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

conformance: $(VENV)/.dev
	$(BIN)/python -m scripts.conformance client
	$(BIN)/python -m scripts.conformance server

prove-budgets: $(VENV)/.dev
	$(BIN)/python -m tests.loop.budget_trees 500 > bench/BUDGETS.md
	WINDLASS_PROVE_BUDGETS=1 $(PYTEST) -n $(JOBS) tests/fleet/test_allotment_schedules.py

prove-edits: $(VENV)/.dev
	$(BIN)/python -m tests.toolbox.edits.proof > bench/EDITS.md

prove-fleet: $(VENV)/.dev
	$(BIN)/python -m tests.fleet.proof > bench/FLEET.md

prove-flow: $(VENV)/.dev
	$(BIN)/python -m tests.flow.measure --write

prove-kills: $(VENV)/.dev
	WINDLASS_PROVE_KILLS=1 $(PYTEST) -n $(JOBS) -m deep tests/crash tests/resources tests/audit tests/vault tests/store
	WINDLASS_PROVE_KILLS=1 $(PYTEST) -n 1 tests/cancel/test_mcp.py tests/crash/test_planned_sweep.py

prove-hostile: $(VENV)/.dev
	WINDLASS_PROVE_HOSTILE=1 $(PYTEST) -n $(JOBS) -m deep tests/hostile

prove-linear: $(VENV)/.dev
	WINDLASS_PROVE_LINEAR=1 $(PYTEST) -n 0 tests/hostile/test_linear.py

prove-options: $(VENV)/.dev
	WINDLASS_PROVE_OPTIONS=1 $(PYTEST) -n $(JOBS) -m deep tests/hostile/test_options.py

prove-partial: $(VENV)/.dev
	WINDLASS_PROVE_PARTIAL=1 $(PYTEST) -n 0 tests/output

prove-projects: $(VENV)/.dev
	$(BIN)/python -m tests.hostile.project_proof > bench/PROJECTS.md

prove-sandbox: $(VENV)/.dev
	$(BIN)/python -m tests.toolbox.sandbox_proof > bench/SANDBOX.md

prove-trees: $(VENV)/.dev
	$(BIN)/python -m tests.loop.agent_trees 500 > bench/TREES.md

prove-workflows: $(VENV)/.dev
	$(BIN)/python -m tests.crash.workflow_proof > bench/WORKFLOWS.md

prove-search: $(VENV)/.dev
	$(BIN)/python -m tests.toolbox.search.proof > bench/SEARCH.md

options: $(VENV)/.dev
	$(BIN)/python scripts/make_options.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html"

pictures: $(VENV)/.dev
	$(BIN)/python -m scripts.make_pictures

newcomer:
	$(PYTHON) -m scripts.newcomer

release: $(VENV)/.run $(TOOLS)/.release
	$(BIN)/python scripts/make_release.py $(TOOLS)

sbom: $(VENV)/.run $(TOOLS)/.release
	$(BIN)/python scripts/make_release.py $(TOOLS) --only-sbom

advisories: $(TOOLS)/.release
	$(TOOLS)/bin/python scripts/check_advisories.py

lock: $(VENV)/.run
	$(LOCK) --upgrade --group installer -o requirements/installer.lock
	$(LOCK) --upgrade --group build -o requirements/build.lock
	$(LOCK) --upgrade pyproject.toml -o requirements/run.lock
	$(LOCK) --upgrade pyproject.toml --group dev -c requirements/run.lock -c requirements/build.lock -o requirements/dev.lock
	$(LOCK) --upgrade pyproject.toml --group deep -c requirements/dev.lock -o requirements/deep.lock
	$(LOCK) --upgrade --group docs -c requirements/dev.lock -c requirements/build.lock -o requirements/docs.lock
	$(LOCK) --upgrade --group release -o requirements/release.lock

# One after the other, also under `make -j`: they write to the same folder. Every file that is
# installed must have a hash that its lock lists.
$(VENV)/.run: requirements/installer.lock requirements/build.lock requirements/run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Windlass needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@test -x $(BIN)/python || { echo "setting up $(VENV) …"; $(PYTHON) -m venv $(VENV); }
	@test -x $(BIN)/uv || $(PIP) -r requirements/installer.lock || echo "no uv here: going on with pip"
	@$(UV) -r requirements/build.lock -r requirements/run.lock || $(PIP) -r requirements/build.lock -r requirements/run.lock
	@$(UV) --no-deps --no-build-isolation -e . || $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	@$(UV) -r requirements/dev.lock || $(PIP) -r requirements/dev.lock
	@touch $@

$(VENV)/.docs: requirements/docs.lock $(VENV)/.run
	@$(UV) -r requirements/docs.lock || $(PIP) -r requirements/docs.lock
	@touch $@

$(VENV)/.deep: requirements/deep.lock $(VENV)/.dev $(VENV)/.docs
	@$(UV) -r requirements/deep.lock || $(PIP) -r requirements/deep.lock
	@touch $@

$(TOOLS)/.release: requirements/release.lock $(VENV)/.run
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	@$(BIN)/uv pip install --quiet --python $(TOOLS)/bin/python -r requirements/release.lock || $(TOOLS)/bin/python -m pip install --quiet -r requirements/release.lock
	@touch $@

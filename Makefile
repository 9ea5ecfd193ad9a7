# `make` lists the targets. Everything sets itself up; nothing is done twice.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKSPACE ?= ./workspace
PYTEST := $(BIN)/pytest -q
TIMED := tests/page tests/crash tests/e2e

.DEFAULT_GOAL := help
.PHONY: help run test check lint types docs docs-check test-quick test-page test-crash test-goals test-executors chaos nightly bench lock wheel vendor-check clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: $(VENV)/run.stamp ## Set everything up and start the gateway with its web page
	@test -e "$(WORKSPACE)" || $(BIN)/nanobot init "$(WORKSPACE)"
	@$(BIN)/nanobot gateway -w "$(WORKSPACE)"

test: $(VENV)/dev.stamp system ## Lint, types and all tests (under 8 minutes on 2 cores)
	@$(MAKE) --no-print-directory check
	@$(PYTEST) -n 2 --dist loadgroup $(foreach one,$(TIMED),--ignore=$(one))
	@# Browsers and real kills have deadlines of their own, so they run one at a time; what fails is printed, and is
	@# run once more, since a busy machine can miss a deadline: twice is a failure.
	@$(PYTEST) $(TIMED) || $(PYTEST) --last-failed --last-failed-no-failures none $(TIMED)

check: lint types vendor-check docs-check ## Lint, types, vendored files, made documents

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	@$(BIN)/mypy

vendor-check: $(VENV)/dev.stamp
	@$(BIN)/python scripts/vendor_web.py --check

docs: $(VENV)/dev.stamp ## Write AGENTS.md's module list and docs/reference.md anew from the sources
	@$(BIN)/python scripts/agents_md.py && $(BIN)/python scripts/reference_md.py

docs-check: $(VENV)/dev.stamp
	@$(BIN)/python scripts/agents_md.py --check && $(BIN)/python scripts/reference_md.py --check

test-quick: $(VENV)/dev.stamp ## The tests without browser, crashes and packaging
	@$(PYTEST) tests --ignore=tests/page --ignore=tests/crash --ignore=tests/e2e --ignore=tests/packaging

test-page: $(VENV)/dev.stamp system ## The web page's tests alone
	@$(PYTEST) tests/page tests/e2e

test-crash: $(VENV)/dev.stamp ## The crash tests alone
	@$(PYTEST) tests/crash

test-goals: $(VENV)/dev.stamp ## The goals' tests alone (NANOBOT_KILLS=100 for the long form)
	@$(PYTEST) tests/test_goal.py tests/test_goals.py tests/test_goal_channels.py tests/test_goal_length.py tests/test_schedule.py tests/crash/test_goal_kills.py

test-executors: $(VENV)/dev.stamp ## The real codex and claude against emulated providers (300 MB the first time)
	@$(BIN)/python -c "import codex_cli_bin" 2>/dev/null || $(BIN)/python -m pip install --quiet --no-deps openai-codex-cli-bin==0.163.0 claude-agent-sdk==0.2.186
	@$(PYTEST) -m executors

chaos: $(VENV)/dev.stamp ## Faults of every kind under load for MINUTES=10, with SEED=…; the table goes to docs/proof.md
	@$(BIN)/python -m tests.crash.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

nightly: $(VENV)/dev.stamp system ## The long run: at least 200 kills
	@NANOBOT_KILLS=200 $(PYTEST) tests/crash -m "slow or not slow"

bench: $(VENV)/dev.stamp ## The table of figures, floor beside ours (PEER_PY=python with the peer adds it)
	@$(BIN)/python -m bench

wheel: $(VENV)/dev.stamp ## Build dist/nanobot-*.whl
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist

lock: $(VENV)/dev.stamp ## Write requirements/*.lock anew from pyproject.toml
	@scripts/lock.sh

clean: ## Remove the environment and caches; the workspace stays
	rm -rf $(VENV) .cache dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# --- the environment -------------------------------------------------------------------------------------------

# One environment, filled in two steps: what running needs, then what developing needs on top.
$(VENV)/run.stamp: pyproject.toml requirements/run.lock scripts/setup.sh
	@scripts/setup.sh run
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.lock
	@scripts/setup.sh dev
	@touch $@

.PHONY: system
system: # Chromium for the page's tests, bubblewrap for the sandbox's
	@scripts/system.sh

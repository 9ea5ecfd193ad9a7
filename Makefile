# `make` lists the targets. Everything sets itself up; nothing is done twice.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKSPACE ?= ./workspace
# What lands is judged by the same examples every time; `make nightly` and `make fuzz` draw new ones.
PYTEST := $(BIN)/pytest -q --hypothesis-profile=ci
EXPLORE := $(BIN)/pytest -q --hypothesis-profile=default
TIMED := tests/page tests/crash tests/e2e
REST := $(foreach one,$(TIMED),--ignore=$(one))
AGAIN := $(PYTEST) --last-failed --last-failed-no-failures none

.DEFAULT_GOAL := help
.PHONY: help run test check lint types docs docs-check test-quick test-page bench-web types-web test-crash test-goals executors test-executors chaos nightly bench soak lock wheel vendor-check clean licences audit fuzz

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: $(VENV)/run.stamp ## Set everything up and start the gateway with its web page
	@test -e "$(WORKSPACE)" || $(BIN)/nanobot init "$(WORKSPACE)" >/dev/null
	@$(BIN)/nanobot gateway -w "$(WORKSPACE)"

test: $(VENV)/dev.stamp system ## Lint, types and all tests (under 8 minutes on 2 cores)
	@$(MAKE) --no-print-directory check
	@# Some tests have deadlines that a busy machine can miss: what fails is printed and run once more, alone. Twice is a
	@# failure. Browsers and real kills wait much, so three of them share two cores too.
	@$(PYTEST) -n 3 --dist loadgroup $(REST) || $(AGAIN) $(REST)
	@$(PYTEST) -n 3 --dist worksteal $(TIMED) || $(AGAIN) $(TIMED)

check: lint types vendor-check docs-check licences ## Lint, types, vendored files, made documents, licences

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	@$(BIN)/mypy

vendor-check: $(VENV)/dev.stamp
	@$(BIN)/python scripts/vendor_web.py --check

licences: $(VENV)/dev.stamp
	@$(BIN)/python scripts/licences.py

audit: $(VENV)/dev.stamp licences ## Known vulnerabilities of the locked packages (asks pypi.org), and their licences
	@$(BIN)/python scripts/audit.py

docs: $(VENV)/dev.stamp ## Write AGENTS.md's module list, docs/reference.md and docs/openapi.json anew from the sources
	@$(BIN)/python scripts/agents_md.py && $(BIN)/python scripts/reference_md.py && $(BIN)/python -m scripts.openapi

docs-check: $(VENV)/dev.stamp
	@$(BIN)/python scripts/agents_md.py --check && $(BIN)/python scripts/reference_md.py --check && $(BIN)/python -m scripts.openapi --check

test-quick: $(VENV)/dev.stamp ## The tests without browser, crashes and packaging
	@$(PYTEST) tests --ignore=tests/page --ignore=tests/crash --ignore=tests/e2e --ignore=tests/packaging

test-page: $(VENV)/dev.stamp system ## The web page's tests alone
	@$(PYTEST) tests/page tests/e2e

bench-web: $(VENV)/dev.stamp system ## How fast and how heavy the web page is, beside its bars (idle machine)
	@$(BIN)/python -m tests.page.speed

types-web: ## The page's scripts under the TypeScript compiler (needs Node; nothing else does)
	@npx -y -p typescript@5.9.3 tsc -p tests/page

test-crash: $(VENV)/dev.stamp ## The crash tests alone
	@$(PYTEST) tests/crash

test-goals: $(VENV)/dev.stamp ## The goals' tests alone (NANOBOT_KILLS=100 for the long form)
	@$(PYTEST) tests/test_goal.py tests/test_goal_texts.py tests/test_goals.py tests/test_goal_channels.py tests/test_goal_length.py tests/test_goal_verify.py tests/test_goal_children.py tests/test_goal_scenarios.py tests/test_goal_slack.py tests/test_goal_trouble.py tests/test_goal_commands.py tests/test_schedule.py tests/crash/test_goal_kills.py

executors: $(VENV)/dev.stamp # The packages that carry codex and claude, for their tests alone
	@$(BIN)/python -c "from importlib.util import find_spec as f; exit(not (f('codex_cli_bin') and f('claude_agent_sdk')))" || $(BIN)/python -m pip install --quiet --no-deps openai-codex-cli-bin==0.163.0 claude-agent-sdk==0.2.186

test-executors: executors ## The real codex and claude against emulated providers (300 MB the first time)
	@$(PYTEST) -m executors || $(AGAIN) -m executors

chaos: $(VENV)/dev.stamp ## Faults of every kind under load for MINUTES=10, with SEED=…; the table goes to docs/proof.md
	@$(BIN)/python -m tests.crash.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) --proof docs/proof.md

nightly: $(VENV)/dev.stamp system ## The long run: at least 200 kills, new examples for every property
	@NANOBOT_KILLS=200 $(PYTEST) tests/crash -m "slow or not slow"
	@$(EXPLORE) -n 2 -m hypothesis $(REST)

fuzz: $(VENV)/dev.stamp ## New examples for every property, schemathesis on the REST, then atheris for MINUTES=5
	@$(EXPLORE) -n 2 -m hypothesis $(REST)
	@test -x $(VENV)/schemathesis/bin/st || $(BIN)/python -m pip install --quiet --target $(VENV)/schemathesis schemathesis==4.32.5
	@$(BIN)/python -m tests.fuzz.rest 60
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/python -m pip install --quiet atheris==3.0.0
	@$(BIN)/python -m tests.fuzz.guided $$(( $(or $(MINUTES),5) * 60 ))

bench: $(VENV)/dev.stamp ## All figures beside a floor, to docs/performance.md (PEER_PY=… adds the peer, PARTS=… takes some)
	@$(BIN)/python -m bench --write $(foreach part,$(PARTS),--only $(part))

soak: $(VENV)/dev.stamp ## Steady load for MINUTES=30: memory, descriptors and threads must stay flat
	@$(BIN)/python -m bench --write --check --only soak --target ours --minutes $(or $(MINUTES),30)

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

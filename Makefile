# Two commands matter: `make run` shows Restante at work, `make test` proves it. Every target sets itself up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The first interpreter that is new enough; `make PYTHON=/path/to/python` overrides the search.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/pyvenv.cfg
READY := $(VENV)/.ready
SYNAPSE := $(VENV)/synapse
SYNAPSE_VERSION := 1.163.2
BROKER := $(VENV)/.mosquitto-tried
BROWSER := $(VENV)/.chromium-tried

# Test processes at a time. Three keep two cores busy: many tests wait for a socket, a disk or a JVM. Each may hold a Spark
# session of about 1.5 GB.
WORKERS ?= 3
# Some hundred processes start in the tests. With this variable each would compile all modules it imports again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help run test prepared check unit soak explore fuzz lint format docs bench lock proto clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

run: $(READY) ## the whole story in about a minute: eight nodes, faults, kill -9, a liar, then the Spark report
	@$(BIN)/restante demo

check: $(READY) lint ## what to run before each commit, within two minutes: lint, types, unit and contract tests
	@$(PYTEST) -q tests/unit tests/vectors tests/contract

test: ## every check and every test; writes docs/reference/conformance.md
	@$(MAKE) --no-print-directory -j 3 prepared
	@$(PYTEST) --conformance-report=docs/reference/conformance.md

# At the same time: one waits for the network while another keeps a core busy.
prepared: $(READY) $(SYNAPSE)/.tried $(BROKER) $(BROWSER) lint

soak: $(READY) ## the long cases, of which `make test` runs one each: kill matrices, many seeds, floods
	@$(PYTEST) --soak

explore: $(READY) ## the long explorations of small worlds, of which `make test` runs the first states
	@$(PYTEST) --soak -m model

fuzz: $(READY) ## coverage-guided random bytes against the decoders, two minutes each
	@cd $$(mktemp -d) && for target in $(CURDIR)/tests/fuzz/[!t]*.py; do \
	  $(CURDIR)/$(BIN)/python $$target -max_total_time=120 -max_len=4096; done

unit: $(READY) ## only the tests without I/O, in seconds
	@$(BIN)/python -m pytest -q -m "unit or vectors"

lint: $(READY) ## ruff and mypy (strict) on src, tests and bench
	@$(BIN)/ruff format --check --quiet . || { echo "formatting differs: run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

format: $(READY) ## rewrite the sources in the house format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

docs: $(READY) ## write the generated pages again
	@$(BIN)/restante config --reference >docs/reference/configuration.md
	@PYTHONPATH=tests $(BIN)/python -m support.docs.channel_formats_page
	@PYTHONPATH=tests $(BIN)/python -m support.docs.tables_page
	@PYTHONPATH=tests $(BIN)/python -m support.docs.state_machine_pages
	@PYTHONPATH=tests $(BIN)/python -m support.docs.mesh_machine_page
	@PYTHONPATH=tests $(BIN)/python -m support.docs.journal_page
	@PYTHONPATH=tests $(BIN)/python -m support.docs.api_page
	@$(BIN)/python -m bench.page

bench: $(READY) ## measure against named peers, print ratios, write docs/benchmarks.md
	@$(BIN)/python -m bench

lock: $(READY) ## resolve the dependencies again
	@$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --group bench --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
	  --quiet -o requirements.lock

proto: $(READY) ## regenerate the protobuf code
	@$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src src/restante/wire/envelope.proto

clean: ## remove everything that make made
	rm -rf $(VENV) .run .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Apart from what goes into it, which may come in any order.
$(MADE):
	@[ -n "$(PYTHON)" ] || { echo "Restante needs Python 3.11 or newer; install it, or run 'make PYTHON=...'"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "this Python has no venv module; on Debian install python3-venv"; exit 1; }

$(READY): requirements.lock pyproject.toml | $(MADE)
	@echo "setting up $(VENV): the first time takes a few minutes (Spark is a large download)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# A Matrix homeserver for the tests of that channel, apart from our own packages, which its pins would change. It is tried
# once; where it cannot be had the tests are skipped and say why. `rm -r .venv/synapse` tries again.
$(SYNAPSE)/.tried: | $(MADE)
	@echo "setting up $(SYNAPSE): a Matrix homeserver for the tests, about a minute and a half"
	@rm -rf $(SYNAPSE) && mkdir -p $(SYNAPSE)
	@limit=$$(command -v timeout >/dev/null && echo "timeout 300" || true); \
	  { $(PYTHON) -m venv $(SYNAPSE) && $$limit $(SYNAPSE)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --only-binary=:all: matrix-synapse==$(SYNAPSE_VERSION); } >$(SYNAPSE)/log.txt 2>&1 || \
	  { { grep -i error $(SYNAPSE)/log.txt || echo "it did not install in time"; } | tail -n 1 >$(SYNAPSE)/why-not.txt; \
	    echo "no Matrix homeserver, its tests are skipped: $$(cat $(SYNAPSE)/why-not.txt)"; }
	@touch $@

# A real MQTT broker for the tests of that channel. Root installs it; without it the tests are skipped and say why.
$(BROKER): | $(MADE)
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"; \
	  if ! command -v mosquitto >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing mosquitto: an MQTT broker for the tests"; \
	    timeout 120 apt-get install -y -qq --no-install-recommends mosquitto >/dev/null 2>&1 || true; fi; \
	  command -v mosquitto >/dev/null || echo "no MQTT broker, its tests are skipped: mosquitto is not installed"
	@touch $@

# A browser for the test of the report's page. Root installs it, after the broker:
# two runs of apt-get would meet. Without it the test is skipped and says why.
$(BROWSER): | $(BROKER)
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing chromium: a browser for the tests"; \
	    timeout 300 apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 || true; fi; \
	  command -v chromium >/dev/null || echo "no browser, its tests are skipped: chromium is not installed"
	@touch $@

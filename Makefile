# Every target sets up what it needs. PORT and DATA_DIR may come from the environment or from this command line.
.DEFAULT_GOAL := help
SHELL := /bin/bash

export PORT ?= 3000
export DATA_DIR ?= .local
export SAM_CLI_TELEMETRY := 0
export PYTHONPATH := layers/queuelog/python:functions:client:.
# The tests start Python hundreds of times, which takes twice as long where it may not keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# The newest Python that starts: a pyenv shim may be on the PATH for a version that isn't installed.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/ready
# Apart, so that nobody waits for Schemathesis who doesn't need it.
API_BIN := .venv-api/bin
API_READY := .venv-api/ready
# The other queues that ours is measured against.
BENCH_BIN := .venv-bench/bin
BENCH_READY := .venv-bench/ready
TEST = $(BIN)/python -m pytest -q -n auto --dist worksteal
# Of the core and the client. To trace the others too takes half as long again, and tells of a few lines more.
OWN_TESTS := tests/core tests/client tests/faults tests/race
OTHER_TESTS := tests/http tests/threats tests/house tests/work
SAM_BUILD = PYTHON="$(abspath $(BIN)/python)" $(BIN)/sam build

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt client/pyproject.toml layers/queuelog/pyproject.toml \
  layers/queuelog/requirements.txt layers/tasks/requirements.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Queuelog needs Python 3.11 or newer on the PATH; set PYTHON=/path/to/python3 if it is elsewhere." >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip==26.3"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev -r layers/queuelog/requirements.txt -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r layers/tasks/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e layers/queuelog -e client
	@touch $@

$(API_READY): pyproject.toml constraints.txt $(READY)
	$(PYTHON) -m venv --clear .venv-api
	$(API_BIN)/python -m pip install --quiet --disable-pip-version-check "pip==26.3"
	$(API_BIN)/python -m pip install --quiet --disable-pip-version-check --group api -c constraints.txt
	@touch $@

$(BENCH_READY): pyproject.toml constraints.txt $(READY)
	$(PYTHON) -m venv --clear .venv-bench
	$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check "pip==26.3"
	$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check --group bench -c constraints.txt
	@touch $@

.PHONY: setup
setup: $(READY) ## Make .venv with every pinned development dependency

.PHONY: run
run: $(READY) ## Start the local API on PORT (3000), its data in DATA_DIR (.local)
	@exec $(BIN)/python -m local

.PHONY: demo
demo: $(READY) ## Watch two workers fail, crash and be killed over 200 jobs, and none be lost: [JOBS=…]
	@exec $(BIN)/python -m local.demo

.PHONY: sam-api
sam-api: $(READY) ## Start the API in Lambda's own runtime, with Docker, on PORT and DATA_DIR
	@$(SAM_BUILD) >/dev/null
	@exec $(BIN)/python -m local.sam start-api

.PHONY: sam-invoke
sam-invoke: $(READY) ## Call one function there: FUNCTION=ClaimJobFunction EVENT=events/claim_job.json
	@$(SAM_BUILD) >/dev/null
	@$(BIN)/python -m local.sam invoke

.PHONY: key
key: $(READY) ## Make an API key: NAME=… ROLES=… [TYPES=… MAX_PRIORITY=… EXPIRES=… STACK=…]
	@test -n "$${NAME+x}" || { echo "A key needs a name and roles, as in: make key NAME=billing ROLES=producer,worker" >&2; exit 2; }
	@$(BIN)/queuelog keys create \
		$(if $(filter undefined,$(origin STACK)),--data-dir="$$DATA_DIR",--stack="$$STACK") $${ROLES+"--roles=$$ROLES"} \
		$${TYPES+"--types=$$TYPES"} $${MAX_PRIORITY+"--max-priority=$$MAX_PRIORITY"} $${EXPIRES+"--expires=$$EXPIRES"} \
		-- $${NAME+"$$NAME"}

.PHONY: restore
restore: $(READY) ## Put a backup in the local queue's place: FROM=a file, or s3://bucket/key
	@test -n "$${FROM+x}" || { echo "Say what to restore: FROM=a file, or FROM=s3://bucket/key" >&2; exit 2; }
	@$(BIN)/queuelog restore --data-dir="$$DATA_DIR" -- $${FROM+"$$FROM"}

.PHONY: test
test: $(READY) ## Run the tests, with the coverage of the core and the client by their own
	$(TEST) --cov --cov-report=term $(OWN_TESTS)
	$(TEST) $(OTHER_TESTS)

.PHONY: test-api
test-api: $(READY) $(API_READY) ## Send the local API what Schemathesis makes of its OpenAPI: [SEED=… EXAMPLES=…]
	@$(BIN)/python -m tests.api

.PHONY: test-nfs
test-nfs: $(READY) ## Run the tests that need NFS: a server and four clients in a virtual machine
	$(BIN)/python -m pytest -q tests/nfs

.PHONY: test-containers
test-containers: $(READY) ## Run the tests that need Docker: the functions in Lambda's own runtime
	$(SAM_BUILD)
	$(BIN)/python -m pytest -q tests/containers

.PHONY: format
format: $(READY) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lint
lint: $(READY) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: check
check: lint test ## Everything a change must pass: lint and test

.PHONY: openapi
openapi: $(READY) ## Write docs/api/openapi.json from the handlers
	$(BIN)/python -m local.openapi

.PHONY: build
build: $(READY) ## Validate the template and build what sam deploy ships
	$(BIN)/sam validate --lint
	$(SAM_BUILD)

.PHONY: bench
bench: $(READY) $(BENCH_READY) ## Measure speed, as ratios within one run: [NAMES="peers …"]
	$(BIN)/python -m benchmarks $(NAMES)

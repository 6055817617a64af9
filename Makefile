# The commands of this repository. Each sets up what it needs; `make help` lists them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
CODE := $(wildcard src tests benchmarks tools examples)
TYPED := $(wildcard src tests benchmarks)
# One more than cores: many tests wait for processes that they have started.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) + 1)

# Compiled modules are kept even where the shell says otherwise: tests start processes by the hundred.
export PYTHONDONTWRITEBYTECODE :=

# Rooms whose tests neither start processes by the hundred nor generate matrices: the rest is left to `make test`.
QUICK := $(addprefix tests/,app architecture desk scheduler store support traps unit)
PYTEST := $(BIN)/pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadgroup --quiet

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Build .venv with every extra and test tool (again only when the requirements change)

$(READY): pyproject.toml constraints.txt tools/setup.sh
	@echo "Setting up $(VENV) ..."
	@PYTHON="$(PYTHON)" tools/setup.sh
	@touch $@

.PHONY: demo
demo: setup ## Run the demo on an embedded database; SECONDS=20 ends it by itself
	$(BIN)/gandy demo $(if $(SECONDS),--seconds $(SECONDS))

.PHONY: check
check: lint ## The fast loop: format, lint, types, import contracts, unit and quick SQLite tests
	$(PYTEST) -m "not postgres and not slow" $(QUICK)

.PHONY: test
test: lint browser pooler ## Everything, PostgreSQL included; ends with what was used
	$(PYTEST)

.PHONY: lint
lint: setup ## Format check, ruff, mypy and the import contracts
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)
	$(BIN)/mypy --no-error-summary $(TYPED)
	$(BIN)/lint-imports --no-logo >$(VENV)/import-contracts.txt || { cat $(VENV)/import-contracts.txt; exit 1; }

.PHONY: format
format: setup ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix --quiet $(CODE) || true
	$(BIN)/ruff format --quiet $(CODE)

.PHONY: browser
browser: ## Have a Chromium for browser tests: installed as root, else unpacked privately
	@tools/ensure_program.sh chromium

.PHONY: pooler
pooler: ## Have a PgBouncer for the tests of poolers: installed as root, else unpacked privately
	@tools/ensure_program.sh pgbouncer

.PHONY: reference
reference: setup ## Write the pages of the reference anew that the code decides
	$(BIN)/python -m tools.references

.PHONY: bench
bench: setup ## Every benchmark, in under an hour; CASE="throughput-1 pruning" for some
	$(BIN)/python -m benchmarks $(if $(CASE),--case "$(CASE)")

.PHONY: bench-quick
bench-quick: setup ## A short run of every benchmark, to see that they work; CASE= as above
	$(BIN)/python -m benchmarks --quick $(if $(CASE),--case "$(CASE)")

.PHONY: bench-report
bench-report: setup ## Tables and picture of the newest benchmark results into the docs
	$(BIN)/python -m benchmarks.report --markdown docs/benchmarks.md --plot docs/benchmarks.png

.PHONY: faults
faults: setup ## What faults cost: killed workers, frozen databases and the like, in about fifteen minutes
	$(BIN)/python -m benchmarks.faults

.PHONY: faults-quick
faults-quick: setup ## The short form of the same, in two minutes
	$(BIN)/python -m benchmarks.faults --quick

.PHONY: zoo
zoo: setup ## 2,000 jobs, a tenth of them hostile, on both databases; SEED= replays, ZOO=alive or deadly for one
	$(BIN)/python -m tests.journeys.zoo $(if $(SEED),--seed $(SEED)) $(if $(ZOO),--zoo $(ZOO)) $(if $(JOBS),--jobs $(JOBS))

.PHONY: mutants
mutants: setup ## Every guard of the lifecycle broken once, and the test that notices; ONLY= picks some
	$(BIN)/python -m tests.lifecycle.mutants $(if $(ONLY),--only "$(ONLY)")

.PHONY: fuzz
fuzz: setup ## Random databases and contracts against a judge; CASES=20000 DATABASE=postgres START=, SEED= replays one
	$(BIN)/python -m tests.lifecycle.fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(START),--start $(START)) $(if $(DATABASE),--database $(DATABASE))

.PHONY: access
access: setup ## Every configuration, credential and route of the dashboard against a judge, as a table
	$(BIN)/python -m tests.web.access

.PHONY: fuzz-api
fuzz-api: setup ## Chains of REST calls that nobody thought of, beside another application; SECONDS=300
	$(BIN)/python -m tests.doors.fuzz_api $(if $(SECONDS),--seconds $(SECONDS))

.PHONY: constraints
constraints: setup ## Resolve constraints.txt anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv  # the one tool that no hash holds: it writes them
	$(BIN)/uv pip compile --quiet --upgrade --universal --no-header --no-annotate --generate-hashes --python-version 3.11 \
		--all-extras --group dev --group postgres pyproject.toml --output-file constraints.txt

.PHONY: sbom
sbom: setup ## Write dist/gandy.cdx.json: what the wheel needs and what it contains of others (CycloneDX)
	$(BIN)/python -m tools.sbom dist/gandy.cdx.json

.PHONY: clean
clean: ## Remove the environment, caches and built files
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache
	find src tests tools $(wildcard benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

# The commands of this repository. Each command sets up its requirements; `make help` lists all of them.
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

# Keep compiled modules even if the shell disables them: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

# Folders whose tests neither start hundreds of processes nor generate matrices; `make test` runs the rest.
QUICK := $(addprefix tests/,architecture desk scheduler support traps unit)
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

# Lint and tests run side by side, because mypy uses one core only; the tests are in the foreground, for Ctrl-C.
.PHONY: check
check: setup ## The fast checks: format, lint, types, import contracts, unit and quick SQLite tests
	@$(MAKE) --no-print-directory lint & lint=$$!; \
		$(PYTEST) -m "not postgres and not slow" $(QUICK); tests=$$?; wait $$lint && exit $$tests

.PHONY: test
test: setup browser pooler ## Lint and all tests, PostgreSQL included; lists the databases and programs used
	@$(MAKE) --no-print-directory lint & lint=$$!; $(PYTEST); tests=$$?; wait $$lint && exit $$tests

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
browser: ## Provide a Chromium for browser tests: installed as root, else unpacked privately
	@tools/ensure_program.sh chromium

.PHONY: pooler
pooler: ## Provide a PgBouncer for the tests of poolers: installed as root, else unpacked privately
	@tools/ensure_program.sh pgbouncer

.PHONY: reference
reference: setup ## Write the generated pages of the reference again
	$(BIN)/python -m tools.references

.PHONY: docs
docs: setup ## Build the documentation as a site with search in dist/site; a broken link is an error
	$(BIN)/mkdocs build --strict --quiet
	@echo "open dist/site/index.html"

.PHONY: bench
bench: setup ## Every benchmark, in about an hour and a half; CASE="throughput-1 pruning" for some
	$(BIN)/python -m benchmarks $(if $(CASE),--case "$(CASE)")

.PHONY: bench-quick
bench-quick: setup ## A short run of every benchmark, to check that it works; CASE= as above
	$(BIN)/python -m benchmarks --quick $(if $(CASE),--case "$(CASE)")

.PHONY: bench-report
bench-report: setup ## Write the tables and the chart of the newest benchmark results into the docs
	$(BIN)/python -m benchmarks.report --markdown docs/benchmarks.md --plot docs/benchmarks.png

.PHONY: faults
faults: setup ## Measure the cost of faults: killed workers, frozen databases and the like, in about fifteen minutes
	$(BIN)/python -m benchmarks.faults

.PHONY: faults-quick
faults-quick: setup ## A short run of `make faults`, in two minutes
	$(BIN)/python -m benchmarks.faults --quick

.PHONY: zoo
zoo: setup ## 2,000 jobs, a tenth of them hostile, on both databases; SEED= replays, ZOO=alive or deadly for one
	$(BIN)/python -m tests.journeys.zoo $(if $(SEED),--seed $(SEED)) $(if $(ZOO),--zoo $(ZOO)) $(if $(JOBS),--jobs $(JOBS))

.PHONY: mutants
mutants: setup ## Break every guard of the lifecycle once, and name the test that detects it; ONLY= selects some
	$(BIN)/python -m tests.lifecycle.mutants $(if $(ONLY),--only "$(ONLY)")

.PHONY: interactions
interactions: setup ## Switch every feature off once: each test of the interaction matrix has to notice; ONLY= selects
	$(BIN)/python -m tests.matrix $(if $(ONLY),--only "$(ONLY)")

.PHONY: fuzz
fuzz: setup ## Random databases and contracts, checked by an oracle; CASES=20000 DATABASE=postgres START=, SEED= replays one
	$(BIN)/python -m tests.lifecycle.fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(START),--start $(START)) $(if $(DATABASE),--database $(DATABASE))

.PHONY: access
access: setup ## Every configuration, credential and route of the dashboard, checked by an oracle, as a table
	$(BIN)/python -m tests.web.access

.PHONY: fuzz-api
fuzz-api: setup ## Random chains of REST calls, next to another application; SECONDS=300
	$(BIN)/python -m tests.doors.fuzz_api $(if $(SECONDS),--seconds $(SECONDS))

.PHONY: constraints
constraints: setup ## Resolve constraints.txt again from pyproject.toml
	$(BIN)/python -m pip install --quiet uv  # the only tool without a pinned hash: it writes the hashes
	$(BIN)/uv pip compile --quiet --upgrade --universal --no-header --no-annotate --generate-hashes --python-version 3.11 \
		--all-extras --group dev --group docs --group postgres pyproject.toml --output-file constraints.txt

.PHONY: sbom
sbom: setup ## Write dist/gandy.cdx.json: dependencies and bundled files of other projects (CycloneDX)
	$(BIN)/python -m tools.sbom dist/gandy.cdx.json

.PHONY: clean
clean: ## Remove the environment, caches and built files
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache
	find src tests tools $(wildcard benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

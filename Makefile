# Every target works from a fresh clone: the first one that needs it makes .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests whose outcome depends on what something takes, which need the machine for themselves; all others run beside each other.
TIMED := $(addprefix tests/,workers e2e/test_demo.py \
	$(addprefix benchmarks/test_,comparisons.py in_network.py kernel_run.py models.py trials.py))

CODE := luthier compiler tuner workers service migrations benchmarks examples

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench-models bench-kernels bench-search golden up down clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv and install Luthier with everything a user or a test needs

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Luthier needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11'; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@$(BIN)/python -m compileall -q $(CODE) # pip does so with all but editable packages
	@touch $@

demo: $(STAMP) ## Tune ResNet-50 through a local server in three minutes, and show what it gave
	$(BIN)/python -m examples.demo

test: $(STAMP) ## Run the tests (ARGS='-k name' passes options to pytest)
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -n 2 $(addprefix --ignore=,$(TIMED))
	$(BIN)/python -m pytest $(TIMED)
endif

check: $(STAMP) ## Lint, check the format, the types and the imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format the code and apply the linter's safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-models: $(STAMP) ## Time whole models beside other engines (ARGS='mlp resnet50 --threads 1 --seconds 60')
	$(BIN)/python -m benchmarks.models $(ARGS)

bench-kernels: $(STAMP) ## Time single operators beside the ceilings and other engines (ARGS="--group memory --check")
	$(BIN)/python -m benchmarks.kernels $(ARGS)

bench-search: $(STAMP) ## Judge cost model and strategies on recorded pools (ARGS="report --seeds 3"; see docs/benchmarks.md)
	$(BIN)/python -m benchmarks.search $(or $(ARGS),report)

golden: $(STAMP) ## Rewrite the golden texts; read the diff before you commit it
	$(BIN)/python -m pytest -q --update-golden $(ARGS)

up: ## Start PostgreSQL, the migration and the server in containers (needs LUTHIER_POSTGRES_PASSWORD, LUTHIER_TOKEN)
	docker compose up --build --detach --wait

down: ## Stop the containers; the data stays
	docker compose down

clean: ## Remove what the demo, the tests and the linters left behind
	rm -rf .demo .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis build dist *.egg-info

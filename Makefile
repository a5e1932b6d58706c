# Everything a newcomer needs: `make report` and `make test` set up their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= data/ddp-gloo-4rank

.PHONY: report test test-torch lint docs bench clean
.DEFAULT_GOAL := report

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab,dev]'
	$(BIN)/python -m compileall -q netlab  # as pip does for what is not editable: 0.15 s less at every start
	touch $@

report: $(VENV)/.installed  ## Run the main job on the recorded sample
	$(BIN)/netlab report $(RUN) --fail-on never

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## Lint, types and tests, without torch
	$(BIN)/pytest -n 2 -m 'not torch'

test-torch: $(VENV)/.installed  ## The tests that need torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch]'
	$(BIN)/pytest -m torch

docs: $(VENV)/.installed  ## Regenerate the generated pages
	$(BIN)/python -m netlab.schema > docs/tables.md
	$(BIN)/python -m netlab.cli.codes > docs/codes.md
	$(BIN)/python -m netlab.verdict > docs/verdict.schema.json

bench: $(VENV)/.installed  ## Speed and memory beside peers
	$(BIN)/python -m compileall -q netlab
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

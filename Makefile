# Two commands do everything on a fresh machine: `make start` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: start test check bench parity clean
.DEFAULT_GOAL := start

# uv is used where it is there (it is faster); plain venv and pip do otherwise.
$(STAMP): pyproject.toml
	@if [ ! -x $(BIN)/python ]; then \
	  if command -v uv >/dev/null 2>&1; then uv venv --seed --python $(PYTHON) $(VENV); else $(PYTHON) -m venv $(VENV); fi; \
	fi
	@if command -v uv >/dev/null 2>&1; then uv pip install --quiet --python $(BIN)/python -e '.[dev]'; \
	 else $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; fi
	@touch $@

start: $(STAMP)  ## schedule a first pod and say why it went where it went
	@$(BIN)/mooring start

check: $(STAMP)  ## formatting, lint, types, layers
	$(BIN)/ruff format --check src tests scripts examples
	$(BIN)/ruff check src tests scripts examples
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## everything CI runs
	$(BIN)/pytest -n auto

bench: $(STAMP)  ## a few minutes of measurements, as a table
	$(BIN)/mooring bench decide

parity: $(STAMP)  ## replay the recorded corpus and write docs/parity.md
	$(BIN)/python scripts/parity.py

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two commands do everything on a fresh machine: `make start` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
SOAK := $(BIN)/python -m tests.faults.soak

.PHONY: start test check style bench parity docs soak fuzz audit lock release clean
.DEFAULT_GOAL := start

# A scheduler needs less than its tests do: the first start does not wait for them.
$(RUNTIME): pyproject.toml
	@PYTHON=$(PYTHON) scripts/install $(VENV) fast
	@touch $@

$(STAMP): pyproject.toml
	@PYTHON=$(PYTHON) scripts/install $(VENV) dev 'with all that the tests need: a few minutes, once'
	@touch $(RUNTIME) $@

start: $(RUNTIME)  ## schedule a first pod and say why it went where it went
	@$(BIN)/mooring start

check: style  ## formatting, lint, layers, types
	$(BIN)/mypy

style: $(STAMP)
	$(BIN)/ruff format --check src tests scripts tools examples
	$(BIN)/ruff check src tests scripts tools examples
	$(BIN)/lint-imports

test: style  ## everything CI runs; types and a soak of fifty seeds run beside the tests, and count as one each
	@mkdir -p build
	@$(BIN)/mypy >build/types.log 2>&1 & types=$$!; \
	  $(SOAK) --minutes 5 --seeds 50 >build/soak.log 2>&1 & soak=$$!; \
	  trap 'kill $$types $$soak 2>/dev/null || true' EXIT; trap 'exit 130' INT TERM; \
	  echo "$(BIN)/pytest -n auto --dist worksteal"; $(BIN)/pytest -n auto --dist worksteal || exit $$?; \
	  echo "$(BIN)/mypy"; wait $$types; typed=$$?; cat build/types.log; [ $$typed -eq 0 ] || exit $$typed; \
	  echo "$(SOAK) --minutes 5 --seeds 50"; wait $$soak; soaked=$$?; cat build/soak.log; exit $$soaked

bench: $(STAMP)  ## a few minutes of measurements, as a table
	$(BIN)/mooring bench decide --pods 500
	$(BIN)/mooring bench perf

parity: $(STAMP)  ## replay the recorded corpora and write docs/parity.md
	$(BIN)/python scripts/parity.py

docs: $(STAMP)  ## write the reference pages and build the documentation into build/site; broken links fail
	$(BIN)/python scripts/docs_formats.py
	$(BIN)/python scripts/docs_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

soak: $(STAMP)  ## replicas of the scheduler under faults, in virtual time (SEEDS=1000 for more)
	$(SOAK) --seeds $(or $(SEEDS),100)

fuzz: $(STAMP)  ## feed the parsers nonsense, 60 seconds each
	$(BIN)/python scripts/fuzz --seconds 60

audit: $(STAMP)  ## ask PyPI what is known about the pinned dependencies
	$(BIN)/pip-audit --strict --require-hashes --disable-pip -r deploy/requirements.txt

lock: $(STAMP)  ## pin what the container installs, with hashes; UPGRADE=--upgrade takes the newest versions
	CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet $(UPGRADE) -o deploy/requirements.txt pyproject.toml

release: $(STAMP)  ## wheel, sdist, Dockerfile, changes, SBOM and checksums in dist/
	PYTHON=$(BIN)/python scripts/release

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

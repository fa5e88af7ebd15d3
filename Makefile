PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow fuzz lint bench figures reproduce clean

# Each stamp stands for an installed set of extras; it is renewed when pyproject.toml changes.
$(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/cavity demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal --durations 15 -m "not slow"

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

fuzz: $(VENV)/.test
	CAVITY_FUZZ=5000 $(BIN)/python -m pytest tests/contracts/test_fuzz.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

figures: $(VENV)/.demo
	$(BIN)/python -m docs.figures

reproduce: $(VENV)/.all
	$(BIN)/cavity reproduce all --output docs/reproduction
	$(BIN)/cavity compare --output docs/reproduction

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The two commands of the README are `make demo` and `make test`: each sets up everything that it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# The tests run in this many processes side by side.
JOBS   ?= 2
PYTEST := $(BIN)/pytest --numprocesses $(JOBS) --dist worksteal --durations 15

.PHONY: demo test check unit conformance integration slow bench clean
.DEFAULT_GOAL := test

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --upgrade 'pip==26.3'

# What `make demo` needs: mixte, TensorFlow for the CPU, and scikit-learn's digits.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[tensorflow-cpu]' scikit-learn
	@touch $@

# What `make test` needs: the three backends and the development tools.
$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[tensorflow-cpu,jax,torch]' --group dev
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/mixte compare --policies float32,mixed_float16 examples/digits_cnn.py

test: check unit integration conformance

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright

unit: $(VENV)/.test
	$(PYTEST) tests/unit

integration: $(VENV)/.test
	$(PYTEST) -m 'not slow' tests/integration

# Trainings in several processes that find each other, die, or are killed and resumed: minutes.
slow: $(VENV)/.test
	$(PYTEST) -m slow tests/integration

# The same tests, once on every backend.
conformance: $(VENV)/.test
	KERAS_BACKEND=tensorflow $(PYTEST) tests/conformance
	KERAS_BACKEND=jax $(PYTEST) tests/conformance
	KERAS_BACKEND=torch $(PYTEST) tests/conformance

bench: $(VENV)/.test
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

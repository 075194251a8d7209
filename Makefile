# make run: set up and run the main job.  make test: set up and pass the tests.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: run test test-fast lint types format docs site bench build clean

run: $(READY)
	$(BIN)/harness run --task gamesolve --model smollm2 --limit 20 --max-tokens 256

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not train and not outside" -n 2
	$(BIN)/python -m pytest -m "train or outside" -n 2 --dist loadfile || test $$? -eq 5

test-fast: $(READY)
	$(BIN)/python -m pytest -m "not train and not outside" -n 2 -x -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	$(BIN)/python docs/generate.py

site: docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/gamesolve_solver.py

build: $(READY)
	$(BIN)/python -m build

$(READY): pyproject.toml constraints.txt setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist *.egg-info

# Every target sets up what it needs: a virtual environment in .venv and the project in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two workers: the suite is CPU-bound and the numeric libraries bring threads of their own.
TEST_WORKERS ?= 2

.PHONY: demo test lint format bench docs clean

demo: $(VENV)/.installed
	$(BIN)/fairanchor demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadgroup

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# With the folder of the real tables, if they are at hand: make bench DATA=FOLDER
bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py $(if $(DATA),--data $(DATA))

# Runs the gallery; its pages are then in build/docs/index.html. Warnings are errors.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/docs

clean:
	rm -rf $(VENV) benchmarks/.venv-holisticai build dist docs/gallery docs/api/generated

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(f"fairanchor needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; set PYTHON=python3.x" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[report]"
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test,lint]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@ $(VENV)/.installed

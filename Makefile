# Every target sets up what it needs: a virtual environment in .venv and the project in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two workers: the suite is CPU-bound and the numeric libraries bring threads of their own.
TEST_WORKERS ?= 2
PYTEST_OPTIONS = -n $(TEST_WORKERS) --dist loadgroup
# One file for each part of the library.
SMOKE := tests/test_anchor_clustering.py tests/test_bad_input.py tests/test_groups.py \
	tests/test_metrics.py tests/test_persistence.py tests/tables tests/cli/test_fit_command.py \
	tests/cli/test_predict_command.py tests/report/test_report_page.py

.PHONY: demo test test-all coverage lint format bench docs trust oldest clean

demo: $(VENV)/.installed
	$(BIN)/fairanchor demo

# The fast tier: no test marked slow, and few examples per property.
test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) -m "not slow"

# Every test, with many examples per property. With COUNT=1 the lines and branches that are taken are
# counted on the way, for `make coverage`: that takes about half as long again, and a run of its own
# would take all of it.
test-all: $(VENV)/.installed-test
	FAIRANCHOR_HYPOTHESIS=ci $(BIN)/python -m pytest $(PYTEST_OPTIONS) $(if $(filter 1,$(COUNT)),--cov --cov-report=)

# What `make test-all COUNT=1` has counted. Compiled kernels leave no trace, and all tests with interpreted
# ones would take hours: so one test runs small fits with the kernels as plain Python.
coverage: $(VENV)/.installed-test
	@test -f .coverage && test -z "$$(find src -name '*.py' -newer .coverage)" || { echo "nothing was counted, or sources are newer: run make test-all COUNT=1 first" >&2; exit 1; }
	$(BIN)/coverage report --fail-under 93

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml --severity-level medium src

# The oldest versions that pyproject.toml allows, in an environment of their own. That they call newer
# libraries by deprecated names is not our doing.
oldest: $(VENV)/.installed-test
	rm -rf $(VENV)-oldest
	$(PYTHON) -m venv $(VENV)-oldest
	$(BIN)/python .ci/oldest.py report | xargs $(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check "pandas==2.2.*" polars "pytest==8.2.*" pytest-timeout pytest-xdist hypothesis
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	$(VENV)-oldest/bin/python -m pytest -n $(TEST_WORKERS) -W default::DeprecationWarning $(SMOKE)

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# With the folder of the real tables, if they are at hand: make bench DATA=FOLDER
bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py $(if $(DATA),--data $(DATA))

# Runs the gallery; its pages are then in build/docs/index.html. Warnings are errors.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/docs

# What the library promises when things go wrong, tried many times: docs/trust.md.
trust: $(VENV)/.installed-test
	$(BIN)/python benchmarks/trust/trust.py

clean:
	rm -rf $(VENV) $(VENV)-oldest benchmarks/.venv-peers build dist docs/gallery \
		docs/api/generated .coverage .coverage.*

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

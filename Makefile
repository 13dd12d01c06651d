# Every target creates .venv on first use and installs what it needs; the stamps make a second use quick.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-fast slow-list lint format bench study study-sources study-cells docs site wheel-demo clean

demo: $(VENV)/core.stamp
	$(BIN)/aliquot demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

# Without the tests in tests/slow.txt and those on real data: 90 seconds of processor time, for the minutes between two edits.
test-fast: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 -m "not slow" --ignore tests/real $(PYTEST_ARGS)

# Measure every test anew, in one process.
slow-list: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --write-slow-list --ignore tests/real

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

study: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/study.py $(STUDY_ARGS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/study_metrics.py $(STUDY_ARGS)

study-sources: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/study_sources.py $(STUDY_ARGS)

study-cells: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/study_cells.py $(STUDY_ARGS)

docs: $(VENV)/dev.stamp
	$(BIN)/python docs/build_reference.py

site: $(VENV)/site.stamp docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What a user gets: the wheel, in an environment of its own, runs the demo.
wheel-demo: $(VENV)/bin/python
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/pip install --quiet --constraint constraints.txt build/wheel/aliquot-*.whl
	cd build/wheel && venv/bin/aliquot demo > demo.txt && tail -n 3 demo.txt

clean:
	rm -rf $(VENV) aliquot-demo build site .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[report,judge]'
	@touch $@

# `pip install --group` needs pip 25.1; fresh machines have an older one. torch is named with its version, because a plain
# `torch` would bring the GPU libraries; subset2evaluate comes without its dependencies, of which the tests need none.
$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --group dev --group oracles --editable '.[cluster,sheets]'
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --group embed-tests
	$(BIN)/pip install --quiet --no-deps subset2evaluate==1.0.27
	@touch $@

$(VENV)/site.stamp: $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --constraint constraints.txt --group site
	@touch $@

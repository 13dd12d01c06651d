# Every target creates .venv on first use and installs what it needs; the stamps make a second use quick.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Two processes with a thread each: more threads than cores cost a fifth of the time. Compiled modules are kept, because
# many tests start a process of their own. `worksteal` gives each process one stretch of tests, which share fixtures.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: demo page test test-fast slow-list fuzz mutants lint format bench study study-selectors study-sources study-cells study-adaptive study-bots docs site wheel-demo clean

demo: $(VENV)/core.stamp
	$(BIN)/aliquot demo

# A demo campaign in the browser; PAGE_ARGS="pairwise --locale de --port 8100" shows another protocol or language.
page: $(VENV)/serve.stamp
	$(BIN)/python -m aliquot.collect.demo $(PAGE_ARGS)

test: $(VENV)/dev.stamp $(VENV)/debian.stamp
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

# Without the tests in tests/slow.txt and those on real data, for the time between two edits; some minutes.
test-fast: $(VENV)/dev.stamp
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --ignore tests/real $(PYTEST_ARGS)

# Measure every test anew.
slow-list:
	$(MAKE) test PYTEST_ARGS=--write-slow-list

# Damaged files for every reader, half a minute each (about ten minutes), by other seeds each time: FUZZ_FIRST=... repeats.
fuzz: $(VENV)/dev.stamp
	@first=$(or $(FUZZ_FIRST),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')); echo "make fuzz FUZZ_FIRST=$$first"; \
	ALIQUOT_FUZZ_FIRST=$$first ALIQUOT_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),30) $(BIN)/python -m pytest tests/fuzz $(PYTEST_ARGS)

# One operator or constant changed in random functions: which changes do the tests of the room notice? Outside CI.
mutants: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/mutants.py $(MUTANTS_ARGS)

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

# Every selection method; goes on where it was stopped (build/study).
study-selectors: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/study_selectors.py $(STUDY_ARGS)

# Adaptive campaigns against published samplers; goes on where it was stopped (build/study).
study-adaptive: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/study_adaptive.py $(STUDY_ARGS)

# Whole adaptive campaigns of bots; goes on where it was stopped (build/study).
study-bots: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python benchmarks/study_bots.py $(STUDY_ARGS)

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

$(VENV)/serve.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[serve]'
	@touch $@

# `pip install --group` needs pip 25.1; fresh machines have an older one. torch is named with its version, because a plain
# `torch` would bring the GPU libraries; subset2evaluate comes without its dependencies, of which the tests need none.
$(VENV)/dev.stamp: $(VENV)/core.stamp
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --group dev --group oracles --group browser --group notebooks --editable '.[cluster,sheets,serve,postgres,logs]'
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --group embed-tests
	$(BIN)/pip install --quiet --no-deps subset2evaluate==1.0.27
	@touch $@

# Programs outside Python that tests use: R's package survey (tests/oracles), a browser with fonts for many scripts,
# PostgreSQL. Where we are not root on Debian, or there is no network, those tests skip; with CI=true they fail then
# (require_debian in tests/conftest.py).
DEBIAN := r-cran-survey chromium fonts-noto-core fonts-noto-cjk postgresql
DEBIAN_MISSING = for package in $(DEBIAN); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || echo $$package; done

$(VENV)/debian.stamp: Makefile | $(VENV)/bin/python
	@missing=$$($(DEBIAN_MISSING)); \
	if [ -n "$$missing" ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing) \
		>/dev/null 2>&1 || echo "Not installed: $$($(DEBIAN_MISSING)). Tests that need them are skipped"; \
	fi
	@if [ -z "$$($(DEBIAN_MISSING))" ]; then touch $@; fi

$(VENV)/site.stamp: $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --constraint constraints.txt --group site
	@touch $@

# Start with `make demo` and `make test`. Both set up what they need. `make help` lists all targets.
.NOTPARALLEL:
.DEFAULT_GOAL := help

PY       := .venv/bin/python
WHEEL_PY := .venv-wheel/bin/python
MUTANTS  := 150
# -P: the working directory is not on the import path, so that the suites test the installed wheel.
PYTEST   := PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P -m pytest

WITH_JVM := spark or interop or kafka or packaging or ray
PARALLEL := --numprocesses=logical --maxprocesses=4 --dist=worksteal

# The cache of compiled kernels remains valid for a new wheel of the same source.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba

# Suites without a JVM run kernels that check every index, which have other machine code; suites with a JVM do not.
CHECKED  := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba-checked

# With this variable each process of a suite compiles all modules of the tests again: half of the collection's time.
unexport PYTHONDONTWRITEBYTECODE

# JVMs of Spark start in a third of the processor time.
SPARK_JVM = SPARK_SUBMIT_OPTS="$$($(WHEEL_PY) -P tools/spark_classes.py)"

.PHONY: help demo test test-rest test-all test-ops test-ops-only check long mutants soak endurance life sinks proto docs site locks release bench parts java lint wheel types types-only clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

demo: java .venv/.ready wheel ## reads a Hudi table in four ways (≤ 90 s after set-up)
	@.venv-wheel/bin/penstock demo

test: java .venv/.ready lint wheel ## every kind of suite, with a sample of large parameter sets (about 35 minutes)
	@$(SPARK_JVM) $(WHEEL_PY) -P tools/run_suites.py sample

test-rest: java .venv/.ready wheel ## the other parameter sets, and `make test-ops`
	@$(SPARK_JVM) $(WHEEL_PY) -P tools/run_suites.py rest

test-all: test test-rest ## every suite, as CI runs them

test-ops: java .venv/.ready wheel test-ops-only ## deploy/ by promtool, a real Prometheus and helm; object stores; spec/ by Spin (≤ 5 minutes once the tools are there)

# The wheel exists: a target that builds it would run in parallel with the suites that use it.
test-ops-only:
	@bash tools/ops_tools.sh
	@$(PYTEST) tests/azure tests/gcs tests/hdfs tests/ops tests/s3 tests/spec -m "ops and not long"

check: .venv/.ready lint wheel types ## for daily use: format, lint, strict types, unit tests (≤ 3 minutes)
	@$(CHECKED) $(PYTEST) $(PARALLEL) tests/unit tests/test_architecture*.py -m "not (long or thorough or exhaustive or $(WITH_JVM))"

long: java .venv/.ready wheel ## long tests that are not in `make test`; writes docs/results/
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt mutmut
	@PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py

mutants: .venv/.ready wheel ## mutants of core, planner and merge that tests must detect, MUTANTS=150 of each; writes docs/results/
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt mutmut
	@PENSTOCK_MUTANTS=$(MUTANTS) PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py tests/mutation

soak: MINUTES ?= 30
soak: java .venv/.ready wheel ## Spark streams with a live Hudi writer while processes are killed, for MINUTES=30; writes docs/results/
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt matplotlib
	@PENSTOCK_SOAK_SECONDS=$$(( $(MINUTES) * 60 )) PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py \
		tests/interop/test_soak.py

endurance: MINUTES ?= 120
endurance: java .venv/.ready wheel ## all kinds of streams and readers beside a real writer for MINUTES=120: nothing may grow; writes docs/results/
	@$(SPARK_JVM) PENSTOCK_ENDURANCE_SECONDS=$$(( $(MINUTES) * 60 )) PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py \
		tests/interop/test_endurance.py

life: MINUTES ?= 120
life: java .venv/.ready wheel ## two tables with writers, table services that are killed, and readers for MINUTES=120; writes docs/results/
	@PENSTOCK_LIFE_SECONDS=$$(( $(MINUTES) * 60 )) PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py \
		tests/interop/test_table_life.py

sinks: MINUTES ?= 30
sinks: java .venv/.ready wheel ## Spark streams write tables from a topic on a cluster whose processes are killed, for MINUTES=30; writes docs/results/
	@PENSTOCK_SINKS_SECONDS=$$(( $(MINUTES) * 60 )) PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py \
		tests/interop/test_sink_cluster.py

proto: .venv/.ready ## regenerate the gRPC stubs in proto/v1
	@$(PY) tools/generate_stubs.py

docs: .venv/.ready ## regenerate docs/reference/ from the code and the golden tables, docs/images/overview.svg from its source
	@$(PY) tools/generate_reference.py
	@$(PY) tools/draw_overview.py
	@$(PY) tools/generate_compatibility.py

site: .venv/.ready ## the documentation as a searchable site, in build/site
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt mkdocs mkdocs-material
	@$(PY) tools/make_site.py

locks: .venv/.ready ## compile requirements/*.lock again: dependencies of releases, by version and SHA-256
	@$(PY) tools/lock_dependencies.py

release: wheel ## the wheel in dist/, and its SBOM (CycloneDX) beside it
	@$(PY) tools/make_sbom.py dist/*.whl

bench: java .venv/.ready wheel ## compare Penstock with Hudi's reader and hudi-rs; writes docs/results/ (≤ 30 minutes)
	@$(WHEEL_PY) -m bench.compare

parts: java .venv/.ready wheel ## measure planning, the service, streams, topics and writes separately (bench/README.md)
	@$(WHEEL_PY) -m bench.planning
	@$(WHEEL_PY) -m bench.service
	@$(WHEEL_PY) -m bench.lake
	@$(WHEEL_PY) -m bench.streaming
	@$(WHEEL_PY) -m bench.hybrid
	@$(WHEEL_PY) -m bench.writes
	@$(WHEEL_PY) -m bench.spark_writes

java:
	@bash tools/need_java.sh

.venv/.ready: pyproject.toml requirements/constraints.txt requirements/daft.txt
	@bash tools/make_venv.sh

lint: .venv/.ready
	@.venv/bin/ruff format --check --quiet . || { echo "penstock: run .venv/bin/ruff format ." >&2; exit 1; }
	@.venv/bin/ruff check --quiet .

wheel: .venv/.ready
	@bash tools/install_wheel.sh

types: wheel types-only

types-only:
	@$(WHEEL_PY) -P -m mypy --strict -p penstock -p pyspark_penstock
	@.venv/bin/basedpyright --pythonpath $(WHEEL_PY) --level error

clean: ## remove the output of the other targets (except .cache, Hudi's environment)
	rm -rf .venv .venv-wheel build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Two commands for a newcomer: `make demo` and `make test`. Both set everything up by themselves. `make help` lists all.
.NOTPARALLEL:
.DEFAULT_GOAL := help

PY       := .venv/bin/python
WHEEL_PY := .venv-wheel/bin/python
MINUTES  := 30
# -P: the working directory stays off the import path, so that the suites test the installed wheel.
PYTEST   := PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P -m pytest

WITH_JVM := spark or interop or kafka or packaging
PARALLEL := --numprocesses=logical --maxprocesses=4 --dist=worksteal

# Compiled kernels survive a new wheel of the same source.
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba

# The suites without a JVM run kernels that check every index, which are other machine code; those with one run them bare.
CHECKED  := NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba-checked

.PHONY: help demo test test-rest test-all test-ops test-ops-only check long soak proto docs site locks release bench parts java lint wheel types types-only clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

demo: java .venv/.ready wheel ## reads a table that real Hudi wrote in four ways (≤ 90 s after set-up)
	@.venv-wheel/bin/penstock demo

test: java .venv/.ready lint wheel ## every kind of suite; of tests with many parameter sets, a sample (≤ 15 minutes)
	@$(WHEEL_PY) -P tools/run_suites.py sample

test-rest: java .venv/.ready wheel ## what `make test` leaves out: the other parameter sets, and `make test-ops`
	@$(WHEEL_PY) -P tools/run_suites.py rest

test-all: test test-rest ## every suite, as CI runs them

test-ops: java .venv/.ready wheel test-ops-only ## deploy/ by promtool, a real Prometheus and helm; object stores (≤ 5 minutes once the tools are there)

# The wheel is there: a target that builds it would do so beside the suites that use it.
test-ops-only:
	@bash tools/ops_tools.sh
	@$(PYTEST) tests/ops tests/s3 -m ops

check: .venv/.ready lint wheel types ## for daily use: format, lint, strict types, unit tests (≤ 3 minutes)
	@$(CHECKED) $(PYTEST) $(PARALLEL) tests/unit tests/test_architecture.py -m "not (long or thorough or exhaustive or $(WITH_JVM))"

long: java .venv/.ready wheel ## what does not fit into `make test`; writes docs/results/
	@PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py

soak: java .venv/.ready wheel ## Spark streams beside a real Hudi writer under kills, for MINUTES=30; writes docs/results/
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt matplotlib
	@PENSTOCK_SOAK_SECONDS=$$(( $(MINUTES) * 60 )) PENSTOCK_TEST_INSTALLED=1 $(WHEEL_PY) -P tools/run_long.py \
		tests/interop/test_soak.py

proto: .venv/.ready ## regenerate the gRPC stubs in proto/v1
	@$(PY) tools/generate_stubs.py

docs: .venv/.ready ## regenerate docs/reference/ from the code and the golden tables, docs/images/overview.svg from its source
	@$(PY) tools/generate_reference.py
	@$(PY) tools/draw_overview.py
	@$(PY) tools/generate_compatibility.py

site: .venv/.ready ## the documentation as a searchable site, in build/site
	@.venv/bin/python -m pip install -qq --disable-pip-version-check -c requirements/constraints.txt mkdocs mkdocs-material
	@$(PY) tools/make_site.py

locks: .venv/.ready ## compile requirements/*.lock anew: what releases depend on, by version and SHA-256
	@$(PY) tools/lock_dependencies.py

release: wheel ## the wheel in dist/, and its SBOM (CycloneDX) beside it
	@$(PY) tools/make_sbom.py dist/*.whl

bench: java .venv/.ready wheel ## Penstock beside Hudi's own reader and hudi-rs, in turn; writes docs/results/ (≤ 30 minutes)
	@$(WHEEL_PY) -m bench.compare

parts: java .venv/.ready wheel ## measure planning, the service, streams and topics by themselves (bench/README.md)
	@$(WHEEL_PY) -m bench.planning
	@$(WHEEL_PY) -m bench.service
	@$(WHEEL_PY) -m bench.streaming
	@$(WHEEL_PY) -m bench.hybrid

java:
	@bash tools/need_java.sh

.venv/.ready: pyproject.toml requirements/constraints.txt
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

clean: ## remove what the other targets made (not .cache: real Hudi's environment)
	rm -rf .venv .venv-wheel build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

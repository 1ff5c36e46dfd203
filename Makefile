# make demo    the main job on real data, from nothing
# make test    every test but the long ones (under ten minutes), which are `make test-slow`
# make lint    formatting, style, types, layers of packages and prose
# make docs    the documentation's site, in build/docs; `make docs-links` asks the web for pages that it links to
# make wheel   dist/*.whl of this machine, which installs without a compiler
# make bench   the figures in docs/costs.md
# make fuzz    the C core and the delegate under a fuzzer (tests/fuzz/README.md), FUZZ_SECONDS each, and damaged
#              files through the package, FUZZ_FILES of them
# make firmware-test TFLM_DIR=…   generated firmware on emulated Cortex-M cores
#
# PYTHON is the interpreter that environments are made from, VENV the environment that is made and used.

PYTHON ?= python3
VENV ?= .venv
TFLITE_RUNTIME_VENV ?= .venv-tflite-runtime
JOBS ?= 2
DIST ?= dist
PYTEST_ARGS ?=
FUZZ_CC ?= clang
FUZZ_SECONDS ?= 6
FUZZ_FILES ?= 4000
FUZZ_SEED ?= 1
FUZZ_RUNS ?= -1

PY := $(VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(shell find ops -type f ! -name README.md)
C_SOURCES := $(shell find ops tests examples benchmarks -name '*.[ch]' -o -name '*.cc' 2>/dev/null)
PYTHON_SOURCES := $(wildcard tflm_zo converters tests examples benchmarks docs)
# All but benchmarks/pretraining, which has a module of the same name as benchmarks/learning.
MYPY_SCRIPTS := tests examples docs $(wildcard benchmarks/*.py) benchmarks/harness benchmarks/alternatives benchmarks/learning benchmarks/numpy_simulation

.PHONY: all demo test test-main test-slow test-tflite-runtime test-c firmware-test fuzz fuzz-core fuzz-core-build fuzz-files fuzz-corpus lint format docs docs-links bench wheel clean
all: test

# --- environments ---------------------------------------------------------------------------------------
# Editable installs: Python sources are used from here, the library is built again when its sources change.

$(PY):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: $(BUILD_INPUTS) | $(PY)
	$(PY) $(PIP_INSTALL) -e '.[demo]'
	touch $@

$(VENV)/.installed-docs: $(BUILD_INPUTS) | $(PY)
	$(PY) $(PIP_INSTALL) -e '.[docs]'
	touch $@

$(VENV)/.installed: $(BUILD_INPUTS) | $(PY)
	$(PY) $(PIP_INSTALL) -e '.[all]'
	touch $@ $(VENV)/.installed-demo $(VENV)/.installed-docs

$(TFLITE_RUNTIME_VENV)/.installed: $(BUILD_INPUTS) Makefile
	test -x $(TFLITE_RUNTIME_VENV)/bin/python || $(PYTHON) -m venv $(TFLITE_RUNTIME_VENV)
	$(TFLITE_RUNTIME_VENV)/bin/python $(PIP_INSTALL) -e '.[tflite-runtime]' pytest pytest-xdist hypothesis
	touch $@

# --- what people run ------------------------------------------------------------------------------------

demo: $(VENV)/.installed-demo
	$(VENV)/bin/tflm-zo demo --force

# The main suite comes last, so that its summary is the last thing on the screen.
test: test-tflite-runtime test-main

test-main: $(VENV)/.installed
	$(PY) -m pytest -n $(JOBS) --dist loadfile -m 'not slow and not tflite_runtime' --durations=50 $(PYTEST_ARGS)

test-slow: $(VENV)/.installed
	$(PY) -m pytest -n $(JOBS) --dist loadfile -m 'slow and not tflite_runtime' $(PYTEST_ARGS)

# tflite-runtime's last release is for CPython 3.11 at most and for NumPy 1.
ifeq ($(shell $(PYTHON) -c 'import sys; print(sys.version_info[:2] in ((3, 10), (3, 11)))'),True)
# The files that may have one: collecting all of them takes longer than running these.
TFLITE_RUNTIME_TESTS = $(shell grep -rlE 'RUNTIMES|mark\.tflite_runtime' tests --include='test_*.py')

test-tflite-runtime: $(TFLITE_RUNTIME_VENV)/.installed
	$(TFLITE_RUNTIME_VENV)/bin/python -m pytest -n $(JOBS) -m 'tflite_runtime and not slow' $(PYTEST_ARGS) \
	  $(TFLITE_RUNTIME_TESTS); \
	status=$$?; test $$status -ne 5 || { echo 'WARNING: no test is marked tflite_runtime'; status=0; }; \
	exit $$status
else
test-tflite-runtime:
	@echo '*** SKIPPED: tests of tflite-runtime. It has no release for this Python; they need CPython 3.10'
	@echo '*** or 3.11: make test PYTHON=python3.11'
endif

# The C core's own tests, without Python, under the address and undefined-behaviour sanitizers.
test-c:
	cmake -S . -B build/c-tests -DCMAKE_BUILD_TYPE=RelWithDebInfo -DZO_BUILD_TESTS=ON -DZO_WERROR=ON \
	  -DZO_SANITIZE=address,undefined
	cmake --build build/c-tests --parallel $(JOBS)
	cd build/c-tests && ctest --output-on-failure --parallel $(JOBS)

# --- fuzzing: tests/fuzz/README.md -------------------------------------------------------------------------

FUZZ_TARGETS := $(basename $(notdir $(wildcard tests/fuzz/core/fuzz_*.c)))
FUZZ_BUILD := build/fuzz
FUZZ_PROGRAMS := $(FUZZ_BUILD)/tests/fuzz/core
# Longer inputs say nothing more to these targets.
FUZZ_OPTIONS = -max_len=400 -timeout=20 -verbosity=0 -seed=$(FUZZ_SEED)

fuzz: fuzz-core fuzz-files

fuzz-core-build:
	@command -v $(FUZZ_CC) >/dev/null || { \
	  echo '*** NOT FUZZED: there is no clang, which libFuzzer comes with.'; \
	  echo '*** Debian: apt-get install clang libclang-rt-dev; another name: make fuzz FUZZ_CC=clang-14'; exit 1; }
	CC=$(FUZZ_CC) cmake -S . -B $(FUZZ_BUILD) -DCMAKE_BUILD_TYPE=None -DZO_BUILD_FUZZERS=ON \
	  -DZO_WERROR=ON
	cmake --build $(FUZZ_BUILD) --parallel $(JOBS) --target $(FUZZ_TARGETS)

# What was found stays in build/fuzz/corpus, inputs that fail in build/fuzz/findings.
fuzz-core: fuzz-core-build
	@mkdir -p $(FUZZ_BUILD)/findings
	@$(MAKE) --no-print-directory --jobs $(JOBS) --output-sync $(addprefix run-,$(FUZZ_TARGETS))

$(addprefix run-,$(FUZZ_TARGETS)): run-%:
	@corpus=$(FUZZ_BUILD)/corpus/$*; mkdir -p $$corpus; \
	  tar -xzf tests/fuzz/corpus/$*.tar.gz -C $$corpus; \
	  log=$(FUZZ_BUILD)/$*.log; \
	  if ! $(FUZZ_PROGRAMS)/$* $(FUZZ_OPTIONS) -max_total_time=$(FUZZ_SECONDS) -runs=$(FUZZ_RUNS) \
	    -print_final_stats=1 -artifact_prefix=$(FUZZ_BUILD)/findings/$*- $$corpus >$$log 2>&1; then \
	    cat $$log; echo "*** $* has found a fault: the input is in $(FUZZ_BUILD)/findings"; exit 1; \
	  fi; \
	  echo "$*: $$(sed -n 's/^stat::number_of_executed_units: *//p' $$log) executions," \
	    "$$(sed -n 's/^stat::average_exec_per_sec: *//p' $$log) a second"

# The same seed gives the same cases; what fails is in build/fuzz/files, with the command that repeats it.
fuzz-files: $(VENV)/.installed
	@mkdir -p $(FUZZ_BUILD)
	cd tests && $(abspath $(PY)) -m fuzz.files --seed $(FUZZ_SEED) --count $(FUZZ_FILES) --jobs $(JOBS) \
	  --findings $(abspath $(FUZZ_BUILD))/files

# The stored corpora again, of what make fuzz has found: the smallest inputs that reach all that is reached.
fuzz-corpus: fuzz-core-build
	@set -e; for target in $(FUZZ_TARGETS); do \
	  kept=$(FUZZ_BUILD)/kept/$$target; rm -rf $$kept; mkdir -p $$kept; \
	  $(FUZZ_PROGRAMS)/$$target $(FUZZ_OPTIONS) -merge=1 -use_counters=0 $$kept $(FUZZ_BUILD)/corpus/$$target; \
	  tar -czf tests/fuzz/corpus/$$target.tar.gz -C $$kept .; \
	done

# Generated firmware in a build of TensorFlow Lite Micro, on emulated cores: TFLM_DIR is a checkout in which
# its own Makefile has built the libraries (tests/tflm_checkout says how).
firmware-test: $(VENV)/.installed
	TFLM_DIR=$(TFLM_DIR) $(PY) -m pytest -n $(JOBS) tests/tflm_checkout tests/docs/test_guide.py $(PYTEST_ARGS)

lint: $(VENV)/.installed
	$(PY) -m ruff check $(PYTHON_SOURCES)
	$(PY) -m ruff format --check $(PYTHON_SOURCES)
	$(PY) -m mypy --strict -p tflm_zo
	$(VENV)/bin/lint-imports --no-cache --no-logo
	$(PY) -m mypy --strict tests/test_package.py
	$(PY) -m mypy --config-file tests/mypy.ini $(MYPY_SCRIPTS)
	$(VENV)/bin/clang-format --dry-run -Werror $(C_SOURCES)
	$(PY) docs/check_prose.py

format: $(VENV)/.installed
	$(PY) -m ruff check --fix $(PYTHON_SOURCES)
	$(PY) -m ruff format $(PYTHON_SOURCES)
	$(VENV)/bin/clang-format -i $(C_SOURCES)

SPHINX = $(PY) -m sphinx --conf-dir docs --jobs $(JOBS) --fail-on-warning --keep-going

docs: $(VENV)/.installed-docs
	$(SPHINX) --builder html --quiet . build/docs
	@echo 'build/docs/index.html'

docs-links: $(VENV)/.installed-docs
	$(SPHINX) --builder linkcheck . build/docs-links

bench: $(VENV)/.installed
	set -e; for benchmark in benchmarks/*.py; do echo "== $$benchmark"; $(PY) $$benchmark; done

# Linux wheels get the tag of the oldest glibc that they run with; the folder's other wheels stay.
wheel: $(VENV)/.installed
	rm -rf build/wheel
	$(PY) -m build --wheel --outdir build/wheel .
	mkdir -p $(DIST)
	if test "$$(uname)" = Linux; then PATH="$(abspath $(VENV)/bin):$$PATH" \
	  $(PY) -m auditwheel repair --wheel-dir $(DIST) build/wheel/*.whl; \
	else cp build/wheel/*.whl $(DIST); fi

clean:
	rm -rf build dist .venv .venv-tflite-runtime .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

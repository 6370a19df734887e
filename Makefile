# Every target works from a bare clone: it makes its own environment in .venv first, and again
# after pyproject.toml changed. All a machine needs is make, g++ and Python >= 3.11.

PYTHON ?= python3
EXTRAS ?= dev,rtl,fpga
VENV   := .venv
RUN    := $(VENV)/bin/python -m
READY  := $(VENV)/.ready
DOCS   := build/docs

# Two workers already fill a small machine; BLAS threads on top only fight each other.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(RUN) pytest
TESTS  := $(PYTEST) -n 2

.PHONY: help demo test test-quick test-slow simulators check bench docs format clean

help:
	@echo "make demo        classify handwritten digits on the golden machine, some on simulated hardware"
	@echo "make test        every check and test but the slow ones (what CI runs)"
	@echo "make test-quick  tests that build and simulate no hardware"
	@echo "make test-slow   the long searches, and everything else"
	@echo "make check       format, lint, types, layers, file sizes"
	@echo "make bench       time against numpy (BENCH='NAME ...' for some; result in build/bench.json)"
	@echo "make docs        documentation in $(DOCS)"
	@echo "make format      let ruff format and mend the sources"
	@echo "make clean       remove what the targets built, but not $(VENV)"

demo: $(READY)
	$(VENV)/bin/python demos/kohakutpu/digits.py --hardware

test: check docs simulators
	$(TESTS) -m "not slow"

test-quick: $(READY)
	$(TESTS) -m "not cocotb and not build and not slow"

test-slow: check docs simulators
	$(RUN) hw.sim --checked duo small tiny
	$(TESTS)

# Built ahead, where nobody waits for them twice; the largest first.
simulators: $(READY)
	$(RUN) hw.sim duo small tiny

check: $(READY)
	$(RUN) ruff check --quiet
	$(RUN) ruff format --check --quiet
	$(RUN) pyright --warnings
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/python tools/file_sizes.py

bench: $(READY)
	@mkdir -p build
	$(RUN) bench $(BENCH) --json build/bench.json

docs: $(READY)
	$(RUN) sphinx -W --keep-going --quiet --fresh-env -b html docs $(DOCS)

format: $(READY)
	$(RUN) ruff check --fix --quiet
	$(RUN) ruff format --quiet

clean:
	rm -rf build .pytest_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The stamp comes last: an environment that was interrupted, or made by hand, is completed.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "KohakuTPU needs Python 3.11 or later; '$(PYTHON)' is not one." \
	       "Name another: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@test -x $(VENV)/bin/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing kohakutpu[$(EXTRAS)] into $(VENV)"
	@$(RUN) pip install -qq --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

# Every target creates $(VENV) when it is missing; nothing but Python >= 3.11 and make is needed.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
LABEL_STUDIO = .cache/label-studio
SPARK = .cache/spark

.PHONY: demo test test-slow test-alone test-older lint check reference docs dist bench record soak format clean

# SERVE=1 lets it go on, to be watched and answered in a browser. Python compiles the modules that the
# demo imports, not all modules of all packages: pip would take half of its time for that.
demo: $(VENV)/$(if $(SERVE),serve,demo)-ready
	PYTHONDONTWRITEBYTECODE= $(BIN)/streamboost demo $(if $(SERVE),--serve)

# One worker has a broker, and one a browser, see tests/conftest.py. These wait half of the time, so
# three keep two cores busy. Each worker, and each command that a test starts, loads what the first
# has compiled, also where the environment forbids Python to keep it.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest

test: $(VENV)/ready
	$(PYTEST) -n 3 -m "not slow"

# Kills at every step, backlogs, and what else takes over half a second and seldom fails; the bridge
# beside Label Studio itself. Two workers have a broker each, and two a browser.
test-slow: $(VENV)/ready $(LABEL_STUDIO)/ready $(SPARK)/ready
	$(PYTEST) -n 4 -m slow

# On Python 3.13, or if it is not found, on the same Python as the other tests.
test-older:
	$(MAKE) --no-print-directory test-on-3.13 ELSE="exec $(MAKE) --no-print-directory test-alone"

# On a Python that is on the path, or one of pyenv's.
ELSE = echo "Python $* is not here: nothing is tried on it"
test-on-%:
	@for each in python$* "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$*.*/bin/python; do \
		if "$$each" -c "" 2>/dev/null; then \
			exec $(MAKE) --no-print-directory test-alone VENV=.venv-$* PYTHON="$$each"; \
		fi; \
	done; \
	$(ELSE)

# Numeric tests as on an older processor: kernels for plain x86-64, numpy and OpenBLAS without AVX. No
# test may depend on the processor. ONLY="" runs all that needs neither broker nor browser.
ONLY = streamboost $(addprefix tests/,adapters boosting evaluation features kernels learner query \
	stacking trees pipelines/app pipelines/demo test_documentation.py test_predictions.py)
OLDER = NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$(CURDIR)/.cache/older OPENBLAS_CORETYPE=Nehalem
FOUND = import numpy; print(*numpy.show_config("dicts")["SIMD Extensions"].get("found", []))
test-alone: $(VENV)/ready
	$(OLDER) NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(FOUND)')" $(PYTEST) -n 3 \
		-m "not slow and not kafka and not browser" $(ONLY)

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python .ci/language.py
	$(BIN)/mypy --strict -p streamboost

check: lint test

# The site, in build/docs/site; a link to nowhere is an error, and so is what would be loaded from elsewhere.
docs: $(VENV)/docs-ready
	$(BIN)/python docs/build.py

# The reference pages that are made from the code, in docs/pages/reference.
reference: $(VENV)/ready
	$(BIN)/python docs/reference.py

# What is published, checked; `streamboost demo` from the wheel on each Python that is found.
dist: $(VENV)/ready
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(MAKE) --no-print-directory wheel-on-3.11 wheel-on-3.12 wheel-on-3.13 wheel-on-3.14

wheel-on-%:
	@for each in python$* "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$*.*/bin/python; do \
		if "$$each" -c "" 2>/dev/null; then \
			rm -rf build/wheel-$* && "$$each" -m venv build/wheel-$* && cd build && \
			wheel-$*/bin/pip install --quiet --disable-pip-version-check ../dist/*.whl && \
			exec wheel-$*/bin/streamboost demo --strategy margin; \
		fi; \
	done; \
	echo "Python $* is not here: the wheel is not tried on it"

# The quick benchmarks, one after another so that no timing disturbs another. The long ones are run
# alone: $(BIN)/python -m benchmarks.NAME of paper_tables, rebel_costs, gamble_step, accuracy, edges,
# streams, blend, mixed, relabel, label_efficiency, honest, drift with every stream, and of
# time_to_error for usps and 200000x50x3, on which the peers alone take many minutes.
bench: $(VENV)/bench-ready
	$(BIN)/python -m benchmarks.batch
	$(BIN)/python -m benchmarks.time_to_error --sets satimage letter segment dna180 300x20x3
	$(BIN)/python -m benchmarks.few_rows --repeats 1
	$(BIN)/python -m benchmarks.scoring
	$(BIN)/python -m benchmarks.quickboost
	$(BIN)/python -m benchmarks.cascade
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.concentric_spheres
	$(BIN)/python -m benchmarks.serving
	$(BIN)/python -m benchmarks.status
	$(BIN)/python -m benchmarks.drift --labels 0 --records 500000

# Ten figures of speed, compared with those of the newest release.
record: $(VENV)/ready
	$(BIN)/python -m benchmarks.record --against benchmarks/record.json

# Looks for new counterexamples, kills a pipeline so many times (and its broker, and lets another
# take over), reads a backlog of so many records, and lets a pipeline run for so many minutes.
soak: $(VENV)/ready
	$(BIN)/pytest --hypothesis-profile=new -m hypothesis tests
	STREAMBOOST_KILLS=$${STREAMBOOST_KILLS:-60} $(BIN)/pytest tests/pipelines/app/test_kills.py tests/pipelines/app/test_kafka_kills.py
	STREAMBOOST_KILLS=$${STREAMBOOST_KILLS:-60} $(BIN)/pytest -s tests/pipelines/app/test_kafka_distributed_kills.py
	STREAMBOOST_BACKLOG=$${STREAMBOOST_BACKLOG:-400000} $(BIN)/pytest tests/pipelines/runner/test_timestamp_aligner.py -k "few_labels or topics"
	STREAMBOOST_SOAK_MINUTES=$${STREAMBOOST_SOAK_MINUTES:-30} $(BIN)/pytest -s tests/pipelines/app/test_soak.py

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("streamboost needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; name another with make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), which takes a minute or two"

$(VENV)/demo-ready: constraints.txt pyproject.toml | $(BIN)/python
	$(INSTALL) . --no-compile
	touch $@

$(VENV)/serve-ready: constraints.txt pyproject.toml | $(BIN)/python
	$(INSTALL) '.[serve]' --no-compile
	touch $@

$(VENV)/ready: constraints.txt pyproject.toml | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $@

$(VENV)/docs-ready: $(VENV)/ready
	$(INSTALL) '.[dev,docs]'
	touch $@

$(VENV)/bench-ready: $(VENV)/ready
	$(INSTALL) '.[dev,bench]'
	touch $@

# Label Studio as of that file; its tests skip where it cannot be had.
$(LABEL_STUDIO)/ready: tests/label_studio/requirements.txt | $(BIN)/python
	rm -rf $(LABEL_STUDIO)
	$(BIN)/python -m venv $(LABEL_STUDIO)
	@echo "installing Label Studio into $(LABEL_STUDIO), which takes a minute or two"
	$(LABEL_STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --requirement $< && touch $@ || \
		{ rm -rf $(LABEL_STUDIO); echo "Label Studio cannot be had: its tests will be skipped"; }

# Spark, of 1.4 GB; its tests skip where it cannot be had.
$(SPARK)/ready: constraints.txt pyproject.toml | $(BIN)/python
	rm -rf $(SPARK)
	$(BIN)/python -m venv $(SPARK)
	@echo "installing Spark into $(SPARK), which takes two minutes"
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[spark]' && \
		$(SPARK)/bin/python -m tests.spark.environment && touch $@ || \
		{ rm -rf $(SPARK); echo "Spark cannot be had: its tests will be skipped"; }

clean:
	rm -rf .venv .venv-* .cache build dist *.egg-info

# The two commands are `make demo` and `make test`; each target sets the machine up first.
# A line that begins with ## is what `make help` says of the target below it.
# TESTS is what pytest takes: TESTS=tests/core/spool, TESTS="--random-order", TESTS="-k fence".
# BIN is where the project's own Python environment lives.

BIN := .venv/bin
DEMO_SECONDS ?= 30
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= codec grammar engine operations parsers reassembly ranges quicr_codec quicr_engine quicr_relay media telehash_codec telehash_engine
FUZZ_COUNT ?=
ATTACKS ?=
MUTANTS ?= acks flow tombstones
SEEDS ?= 20000
SINK_RUNS ?= 10000
OBJECT_RUNS ?= 10000
SOAK ?= restarts kills bridge backpressure many cluster
SOAK_BOUNCES ?= 5
SOAK_SECONDS ?= 0
MINUTES ?= 60
JAVA := .ci/with-java

# Hundreds of Python processes are started here: none compiles the same modules again.
unexport PYTHONDONTWRITEBYTECODE

# Most tests with processes wait more than they compute: more workers than two cores, one of them for
# the session of Spark, one for drivers in processes of their own.
WORKERS ?= 4
# A JVM that lives for a few small batches: what it would compile and collect in parallel for a long
# life costs twice what it saves here.
SHORT_LIFE := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
SHARED_CLASSES := -XX:SharedArchiveFile="$(CURDIR)/.java/spark.jsa" -Xlog:disable
PYTEST := .ci/quick-start $(SHORT_LIFE); OPENBLAS_NUM_THREADS=1 \
  SPARK_SUBMIT_OPTS='$(SHORT_LIFE) $(SHARED_CLASSES)' SPARK_LAUNCHER_OPTS="$(SHORT_LIFE)" $(JAVA) \
  $(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder

.PHONY: help demo test test-all objects hostile browser lab check bench bench-kafka bench-long soak simulate fuzz mutants wheel matrix pages docs setup setup-demo clean

## what there is to make
help:
	@awk '/^## / { text = substr($$0, 4) } \
	  /^[a-z-]+:/ && text { sub(/:.*/, ""); printf "make %-11s %s\n", $$0, text; text = "" }' Makefile

## .venv with pinned packages and a Java 17, as far as they are not there
setup:
	@.ci/setup

## the same without what only tests need
setup-demo:
	@.ci/setup demo

## a producer, an intake and a query for DEMO_SECONDS, and what they did: demo-out/
demo: setup-demo
	@$(JAVA) $(BIN)/aqueduct demo --seconds $(DEMO_SECONDS) --out demo-out

## all tests but the long ones; TESTS names some of them
test: setup
	@$(PYTEST) -m "not long and not hostile and not wheel and not browser and not gateway" $(TESTS)

## what takes long: exhaustive enumerations, and kills by the dozen
test-all: setup
	@$(PYTEST) -m "long and not hostile and not wheel and not browser and not gateway" $(TESTS)

# Go builds the gateway once, below .gateway; OBJECT_RUNS is how many runs are simulated before.
## spools on object storage: simulated runs, then kills and figures against an S3 gateway
objects: setup
	@.ci/gateway > /dev/null
	@$(BIN)/python -m tests.support.objects.simulated_spool 0 $(OBJECT_RUNS)
	@$(BIN)/python -m pytest -p no:xdist -m gateway $(or $(TESTS),tests/gateway)
	@$(BIN)/python -m tests.gateway.figures

# Attacks on an intake at its default limits, a good producer beside them: memory, CPU and acks;
# two at a time, since what is measured is CPU. How long acks take meanwhile, a lab measures on a
# quiet machine; ATTACKS names some of them; its table is also in lab-out.md.
## attacks on an intake in all the ways that we know
hostile: setup
	@$(PYTEST) -n 2 -m hostile $(or $(TESTS),tests/hostile)

# Downloads Spark once more, in the oldest version that works; WHEEL_PYTHON is the Python.
WHEEL_PYTHON ?= $(or $(firstword $(wildcard $(HOME)/.pyenv/versions/3.11*/bin/python3.11)),$(shell command -v python3.11),$(BIN)/python)
## the wheel and the source package, tried in an empty environment as README says
wheel: setup
	@WHEEL_PYTHON=$(WHEEL_PYTHON) $(JAVA) $(BIN)/python -m pytest -p no:xdist -m wheel tests/wheel

# MATRIX names pairs of Python and Spark, such as "3.12:4.2.0 3.14:4.3.0"; its table is matrix-out.md.
## some tests with each Python that is found and the oldest and newest Spark
matrix: setup
	@$(JAVA) $(BIN)/python -m tests.wheel.matrix --out matrix-out.md $(MATRIX)

# Chromium and its driver are Debian's: apt-get installs them where they are missing.
## the page of intakes in a real browser without a display
browser: setup
	@.ci/browser
	@$(BIN)/python -m pytest -p no:xdist -m browser $(or $(TESTS),tests/browser)

## what attacks cost a good producer, on a quiet machine; ATTACKS names some
lab: setup
	@$(BIN)/python -m tests.hostile.lab --out lab-out.md $(ATTACKS)

# .pre-commit-config.yaml runs the same commands.
## ruff, formatting, mypy, architecture and the pages that are made, in a minute
check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/architecture
	@$(BIN)/python -m tests.support.conformance --check
	@$(BIN)/python -m tests.support.diagrams --check
	@$(BIN)/python -m tests.support.options_page --check
	@$(BIN)/python -m tests.support.errors_page --check
	@$(BIN)/python -m tests.support.layers --check
	@$(BIN)/python -m tests.support.metrics_page --check
	@$(BIN)/python -m tests.support.command_line_pages --check

# ONLY names benches (comma list; `python -m tests.bench.run --list`), AGAINST another checkout to
# compare this one with, REPETITIONS and SECONDS how much each does, KINDS some of the loads.
BENCH = $(JAVA) $(BIN)/python -m tests.bench.run --out bench-out $(if $(ONLY),--only '$(ONLY)') \
  $(if $(AGAINST),--against '$(AGAINST)') $(if $(REPETITIONS),--repetitions $(REPETITIONS)) \
  $(if $(SECONDS),--seconds $(SECONDS)) $(if $(KINDS),--kinds '$(KINDS)')

## speed and memory, as ratios to references of the same minute: bench-out/
bench: setup
	@$(BENCH)

# The broker's jars come by Spark's own resolver of Maven artifacts, into its cache.
## the same beside Spark with a Kafka broker, which is fetched: bench-out/
bench-kafka: setup
	@$(BIN)/python -c 'import confluent_kafka, kafka' 2>/dev/null || \
	  $(BIN)/python -m pip install -q -c .ci/constraints.txt \
	  --config-settings editable_mode=compat -e '.[kafka]'
	@$(BENCH) --kafka

## MINUTES of messages at a steady rate: cost and memory, last minute over first
bench-long: setup
	@$(JAVA) $(BIN)/python -m tests.bench.run --out bench-out --only long \
	  --seconds $$(($(MINUTES) * 60))

# SOAK names scenarios, SOAK_BOUNCES the hits of each kind in the kill loop, SOAK_SECONDS its time
# instead; tables and pictures in soak-out/.
## breaks things on purpose for long, and checks the ledger
soak: setup
	@$(JAVA) $(BIN)/python -m tests.soak $(SOAK) --bounces $(SOAK_BOUNCES) \
	  --seconds $(SOAK_SECONDS) --out soak-out

# SEEDS conversations, trees of relays and lines of Telehash, and SINK_RUNS runs of the sink at receivers that die
# anywhere.
## engines over a bad link, relays, and the sink, on a virtual clock: SEEDS of them
simulate: setup
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)
	@$(BIN)/python -m tests.relay_simulation --seeds $(SEEDS)
	@$(BIN)/python -m tests.telehash_simulation --seeds $(SEEDS)
	@$(BIN)/python -m tests.spark.write.delivery_model --runs $(SINK_RUNS)

## FUZZ_SECONDS for each of FUZZ_TARGETS, or FUZZ_COUNT random inputs
fuzz: setup
ifeq ($(FUZZ_COUNT),)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	  $(BIN)/python -m pip install -q -c .ci/constraints.txt \
	  --config-settings editable_mode=compat -e '.[fuzz]'
	@for target in $(FUZZ_TARGETS); do \
	  $(BIN)/python -m tests.fuzz.run $$target $(FUZZ_SECONDS) || exit 1; done
else
	@for target in $(FUZZ_TARGETS); do \
	  $(BIN)/python -m tests.fuzz.draw $$target $(FUZZ_COUNT) || exit 1; done
endif

# mutmut, with mutants/ as its working copy. MUTANTS names modules of aqueduct_core/aqueduct and
# aqueduct_core/primitives, '*' all; .venv/bin/mutmut show NAME prints one. It changes no properties
# and no tables.
## small changes of the engine, and which of them no test notices
mutants: setup
	@$(BIN)/python -c 'import mutmut' 2>/dev/null || \
	  $(BIN)/python -m pip install -q -c .ci/constraints.txt \
	  --config-settings editable_mode=compat -e '.[mutants]'
	@$(BIN)/python -m tests.support.mutants $(MUTANTS:%='%')

## the pages below docs/ that are made from code and tests
pages: setup
	@$(BIN)/python -m tests.support.conformance
	@$(BIN)/python -m tests.support.diagrams
	@$(BIN)/python -m tests.support.options_page
	@$(BIN)/python -m tests.support.errors_page
	@$(BIN)/python -m tests.support.layers
	@$(BIN)/python -m tests.support.metrics_page
	@$(BIN)/python -m tests.support.command_line_pages
	@$(BIN)/python -m tests.bench.report

# Sphinx with MyST and furo: 17 MB to fetch, 80 MB on disk. A page that cannot be read, a link or an
# anchor that leads nowhere is an error.
SPHINX = $(BIN)/python -c 'import furo, myst_parser' 2>/dev/null || \
  $(BIN)/python -m pip install -q -c .ci/constraints.txt \
  --config-settings editable_mode=compat -e '.[docs]'; \
  $(BIN)/python -m sphinx -c docs -d docs-out/.doctrees -q -W --keep-going -n

## the site of README.md and docs/: docs-out/index.html
docs: setup
	@$(SPHINX) -b html . docs-out

## away with all that was made here
clean:
	rm -rf .venv .java .matrix matrix-out.md docs-out demo-out soak-out bench-out lab-out.md mutants spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

# The two commands are `make demo` and `make test`; both set the machine up first.
# BIN is where the project's own Python environment lives.

BIN := .venv/bin
DEMO_SECONDS ?= 30
JAVA := $(CURDIR)/.ci/with-java

.PHONY: demo test check bench setup pages clean

setup:
	@.ci/setup

demo: setup
	@$(JAVA) $(BIN)/python -m jobs.demo.run --seconds $(DEMO_SECONDS) --out demo-out

test: setup
	@$(JAVA) $(BIN)/python -m pytest $(TESTS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/architecture
	@$(BIN)/python -m tests.support.conformance --check
	@$(BIN)/python -m tests.support.options_page --check

bench: setup
	@$(JAVA) $(BIN)/python -m tests.bench.run

pages: setup
	@$(BIN)/python -m tests.support.conformance
	@$(BIN)/python -m tests.support.options_page

clean:
	rm -rf .venv demo-out spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

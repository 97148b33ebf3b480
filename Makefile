# `make` or `make help` lists what there is. Nothing here writes outside this directory, and nothing
# needs root but test-net and the measurements beside corosync.

PYTHON ?= python3
SEEDS ?= 0:10000
PYTEST_ARGS ?=
LARGE := tests/client/test_large_message.py tests/client/test_state_transfer.py \
    tests/client/test_merge.py tests/daemon/test_crowd.py tests/daemon/test_hostile_clients.py

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-audit test-install test-large test-net test-cluster lint mutants hostile \
    soak bench bench-spark bench-synchrony bench-engines bench-campaign bench-failover bench-idle bench-against-corosync \
    bench-peers bench-peers-full bench-candidates bench-growth bench-overload bench-costs bench-profile test-browser clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## five daemons are hurt under load, and what they promised is checked
	$(BIN)/evensong demo

test: lint ## lint, types and every test a contributor needs
	$(BIN)/python -m compileall -q src tests  # daemons start many times; not each compiles
	$(BIN)/python -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)

lint: $(READY) ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test-install: ## `pip install .` into an empty environment, and what importing it takes
	$(PYTHON) tests/install.py

test-large: $(READY) ## daemons under large messages, large states, crowds and a million bad requests
	$(BIN)/python -m pytest -v --state-mib 100 --hostile-requests 1000000 $(LARGE) $(PYTEST_ARGS)

test-audit: $(READY) ## Spark's verdicts against those of the check in memory: swarm runs and mutants
	$(BIN)/python tests/spark/agreement.py

test-net: $(READY) ## as root: daemons in namespaces, on a network that treats them badly
	$(BIN)/python -m pytest -v --net tests/net $(PYTEST_ARGS)

test-browser: $(READY) ## the report in a headless Chromium; pictures go to out/pictures
	@for name in chromium chromium-browser google-chrome; do \
	    command -v $$name >/dev/null && exit 0; done; \
	    echo "test-browser needs a Chromium, and installs none; on Debian: apt install chromium" >&2; exit 1
	$(BIN)/python -m pytest -v -n 0 --browser --pictures out/pictures tests/browser $(PYTEST_ARGS)

test-cluster: $(READY) ## audit and campaign on a cluster of Spark, started here for it
	$(BIN)/python -m pytest -v --cluster tests/cluster $(PYTEST_ARGS)

mutants: $(READY) ## break the protocol on purpose; every mutant must be caught
	$(BIN)/python tests/mutants/run.py

hostile: $(READY) ## a million hostile frames at a core of each engine, a million datagrams at a daemon
	$(BIN)/python -m pytest -q -n 2 tests/core/totem/test_hostile.py \
	    tests/core/transis/test_hostile.py --hostile-frames 1000000
	$(BIN)/python -m pytest -q tests/daemon/test_hostile.py --hostile-datagrams 1000000

soak: $(READY) ## many simulated runs: make soak SEEDS=0:10000
	$(BIN)/evensong sim --seeds $(SEEDS)

bench: $(READY) ## measure the simulator
	$(BIN)/python bench/simulator.py

bench-synchrony: $(READY) ## agreed latency by engine and size, in the simulator, into docs/protocols/transis.md
	$(BIN)/python -m bench.synchrony --anew --write

bench-engines: $(READY) ## daemons of both engines side by side, into docs/performance.md; a quarter of an hour
	$(BIN)/python -m bench.engines --write

bench-campaign: $(READY) ## what Spark costs a campaign, beside plain processes
	$(BIN)/python -m bench.campaign

bench-failover: $(READY) ## as root: how soon survivors go on, beside corosync
	$(BIN)/python -m bench.failover

bench-against-corosync: $(READY) ## as root: messages a second, client to clients, beside corosync
	$(BIN)/python -m bench.against_corosync

bench-peers: $(READY) ## as root: all of it beside corosync, into docs/performance.md; half an hour
	$(BIN)/python -m bench.compare --anew --write docs/performance.md

bench-peers-full: $(READY) ## as root: every size and number of nodes; hours, goes on where it was stopped
	$(BIN)/python -m bench.compare --full --write docs/performance.md

bench-candidates: $(READY) ## as root: fail-over at the best settings of each; three quarters of an hour
	$(BIN)/python -m bench.failover --candidates --transport knet --write docs/performance.md

bench-growth: $(READY) ## 2 to 32 daemons here, 2 to 64 simulated; a quarter of an hour
	$(BIN)/python -m bench.growth --write docs/performance.md

bench-overload: $(READY) ## more than the ring takes, and one of them slow
	$(BIN)/python -m bench.overload --write docs/performance.md

bench-profile: $(READY) ## where a message's time goes, by py-spy; a minute and a half
	$(BIN)/python -m bench.profile --size 100 --size 1024 --write docs/performance.md

bench-costs: $(READY) ## what a trace, the seal, safe delivery, filtering and a state cost
	$(BIN)/python -m bench.costs

bench-spark: $(READY) ## how long an audit of ten to eighty million deliveries takes
	$(BIN)/python -m bench.spark --dir out/traces --plant all

bench-idle: $(READY) ## as root: what an idle ring costs and how it wakes, beside corosync
	$(BIN)/python -m bench.idle

clean: ## remove the virtual environment, caches and build output
	rm -rf $(VENV) build dist out src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Pinned versions by hash first; then this package, built by the pinned backend and resolving nothing.
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "evensong needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=python3.12" >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --no-build-isolation --no-deps -e .
	@$(BIN)/python -c 'from evensong.spark.archive import main; raise SystemExit(main())' || true  # without it, Spark starts in twice the time
	@touch $@

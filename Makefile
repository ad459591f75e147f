# `make demo` and `make test` need nothing but make: they set up the rest themselves (scripts/setup.sh).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help
export FILE SERVICES

PYTHON := .venv/bin/python
PROFILES := demo gateway grow tools balancer pipeline replicated secure monitoring ui # of docker-compose.yml

.PHONY: help
help: ## show this list
	@sed -n 's/^##@ /\n/p; s/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 16

##@ Try it
.PHONY: demo
demo: setup-$(if $(filter quick,$(DEMO)),quick,demo) ## have FILE=path, or synthetic events, pass through every tier, and account for them (DEMO=quick: without Spark)
	@$(PYTHON) -m kafka2011 demo --tiers $(if $(filter quick,$(DEMO)),quick,all) $${FILE:+--file "$$FILE"} --report build/demo/report

.PHONY: up
up: ## start the cluster of docker-compose.yml and wait until it is healthy (COMPOSE_PROFILES=demo: with something to watch)
	@scripts/up.sh

.PHONY: down
down: ## stop that cluster, whatever was started of it; the data stays
	@scripts/compose.sh $(foreach profile,$(PROFILES),--profile $(profile)) down

.PHONY: images
images: ## build the image of brokers and tools, and where no registry answers, what it is built from (EXTRA=spark: and Spark's)
	@scripts/images.sh $(EXTRA)

.PHONY: wheels
wheels: setup-local ## fill build/wheels, to build the image without a network (EXTRA=spark: for the Spark image too)
	@scripts/wheels.sh $(EXTRA)

##@ Check a change
.PHONY: quick
quick: setup-test ## lint, types, and the unit tests nearest to what differs from the main branch, in a minute
	@$(PYTHON) -m scripts.quick

.PHONY: test
test: lint types contracts unit integration ## check and test everything

.PHONY: lint
lint: setup-test ## ruff and Biome: rules and format of Python and of the console's JavaScript; and limits that only get stricter
	@echo "== ruff"
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@echo "== biome"
	@.venv/bin/biome check --error-on-warnings
	@! LC_ALL=C.UTF-8 grep -nE '^.{121,}' kafka2011/ui/page/*.js # texts, which it does not break
	@echo "== limits"
	@$(PYTHON) -m scripts.ratchet

.PHONY: types
types: setup-test ## mypy --strict
	@echo "== mypy"
	@$(PYTHON) -m mypy

.PHONY: contracts
contracts: setup-test ## import-linter: which module may import which
	@echo "== import contracts"
	@.venv/bin/lint-imports --no-cache

.PHONY: unit
unit: setup-test ## tests without ZooKeeper, three at a time: some mostly wait
	@echo "== unit tests"
	@$(PYTHON) -m pytest tests -n 3 --dist worksteal --durations=5

.PHONY: integration
integration: setup-test ## tests with real ZooKeeper and real processes, three at a time: they mostly wait
	@echo "== integration tests"
	@$(PYTHON) -m integration.jvm_archives || echo "no archives of classes could be made: tests start more slowly"
	@$(PYTHON) -m pytest integration -n 3 --dist loadfile --no-loadscope-reorder --durations=25

##@ Longer proofs
.PHONY: models
models: setup-test ## search the models of group, log and producer deeper, takes minutes
	@echo "== models"
	@MODEL_DEPTH=deep $(PYTHON) -m pytest tests/models --timeout=1800 -s --durations=10

.PHONY: chaos
chaos: setup-test ## MINUTES=10 SEED=...: a cluster whose parts fail at random, and the account (SCHEDULE=file: once more; REPLICAS=3: those of one broker; GATEWAY=1 JARS=...: Java clients too)
	@$(PYTHON) -m integration.chaos$(if $(REPLICAS),.replicas --replicas $(REPLICAS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(SCHEDULE),--schedule $(SCHEDULE)) $(if $(SWARM),--swarm) $(if $(SECURE),--secure) $(if $(GATEWAY),--gateway) $(if $(JARS),--jars $(JARS))

.PHONY: proof
proof: setup-test ## what takes too long for every day: bare Debian systems, the Spark image, a pipeline (as root, with Docker)
	@echo "== proof"
	@$(PYTHON) -m pytest proof --durations=10 $(if $(ONLY),-k "$(ONLY)")

.PHONY: mutants
mutants: setup-test ## which small changes of the core, and of a sample of all else, no unit test notices (MODULES="message.compression producer.*" SAMPLE=50 SEED=1)
	@$(PYTHON) -m scripts.mutants $(if $(MODULES),--modules "$(MODULES)") $(if $(SAMPLE),--sample $(SAMPLE)) \
		$(if $(SEED),--seed $(SEED)) $(if $(TESTS),--tests "$(TESTS)")

BENCH_SYSTEMS = $(foreach system,$(ONLY),--system $(system))

##@ Measure
.PHONY: bench
bench: setup-bench ## bursts of all systems side by side, and the paper's reasons, in ten minutes (first `make bench-rivals`; ONLY="kafka2011 redis")
	@$(PYTHON) -m paper_benchmarks all --only systems,reasons $(BENCH_SYSTEMS) $(BENCH)

.PHONY: bench-long
bench-long: setup-bench ## the first page of results: all systems in runs of 10 s and longer, and tables beside Kafka 4, about three hours and 22 GB (first `make bench-rivals`; ONLY=...)
	@$(PYTHON) -m paper_benchmarks all --only systems,beside,latency --size paper $(BENCH_SYSTEMS) $(BENCH)

.PHONY: bench-paper
bench-paper: setup-bench ## every experiment, those of the paper at its size: long runs, 20 GB, ten minutes of the pipeline; six hours
	@$(PYTHON) -m paper_benchmarks all --without sweep,systems,beside,reasons,backlog,load_cost,pipeline $(BENCH)
	@$(PYTHON) -m paper_benchmarks all --only systems,beside,reasons,backlog,load_cost,pipeline --size paper $(BENCH_SYSTEMS) $(BENCH)

.PHONY: bench-clients
bench-clients: setup-bench ## what a message costs our clients and broker, with C and without, and their floors, in a few minutes
	@$(PYTHON) -m paper_benchmarks systems --system kafka2011 --system kafka2011-python --results $(CURDIR)/build/bench $(BENCH)

.PHONY: bench-rivals
bench-rivals: ## install the systems that benchmarks measure beside this one, as Debian packages, their Python clients, and a Spark for Delta's jars
	@scripts/rivals.sh

##@ Documents and releases
.PHONY: docs
docs: setup-test ## write the generated parts of docs/ again: commands, settings, metrics, public names, drawings, what `lab page` shows
	@$(PYTHON) -m scripts.slow_motion
	@$(PYTHON) -m scripts.update_docs

.PHONY: site
site: setup-test ## build build/site: these documents as pages with search, and the reference of the Python API
	@$(PYTHON) -m sphinx -c docs -b html -d build/site-cache -n -W --keep-going -q . build/site
	@echo "build/site/index.html"

.PHONY: dist
dist: setup-test ## make dist/*.whl and dist/*.tar.gz, to be installed elsewhere; the same bytes from the same sources
	@$(PYTHON) scripts/make_dist.py dist

.PHONY: release
release: setup-test ## make dist/ for a package index: wheels that need no compiler, for x86_64 and aarch64, and the source
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-input ".[release]"
	@$(PYTHON) scripts/make_dist.py dist --release
	@.venv/bin/auditwheel show dist/*x86_64.whl && .venv/bin/auditwheel show dist/*aarch64.whl

.PHONY: setup-local setup-quick setup-demo setup-test setup-bench
setup-local setup-quick setup-demo setup-test setup-bench: setup-%:
	@scripts/setup.sh $*

.PHONY: clean
clean: ## remove all that was made or installed here, .venv too
	rm -rf .venv build dist kafka2011/*/*.so kafka2011/*/*/*.so *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find kafka2011 pyspark_kafka2011 zk paper_benchmarks tests integration proof scripts -name __pycache__ -type d -prune -exec rm -rf {} +

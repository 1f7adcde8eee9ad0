# Everything starts from here: `make run` and `make test` set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
SITE := build/site-tools
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE := copy
export PYTHONDONTWRITEBYTECODE :=

ELSEWHERE := --ignore=tests/e2e --ignore=tests/faults --ignore=tests/foreign --ignore=tests/hostile \
	--ignore=tests/cluster/test_sweep.py
PYTEST := $(BIN)/pytest $(ELSEWHERE) -m "not slow"
TESTS := $(PYTEST) -q -n auto --dist=worksteal -p tools.requirements
CHECKS := mypy contracts ruff file-sizes vocabulary

.PHONY: setup compiled run test slow image cluster hostile check $(CHECKS) docs site fmt lock release wheels requirements requirement mutate ladder faults faults-cluster soak soak-cluster e2e pictures zones foreign bench bench-peers bench-page clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /	/' | expand -t 14

setup: $(STAMP) ## make .venv from the locked requirements

$(STAMP): requirements/dev.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (about 20 seconds the first time)…"
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check uv 2>/dev/null; then \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.lock && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e . ; \
	else \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e . ; \
	fi
	@touch $@

compiled: setup ## compile once what each process of a test run would else compile for itself
	@$(PYTEST) -qq --collect-only > /dev/null
	@LITELLM_LOCAL_MODEL_COST_MAP=True $(BIN)/python -c "import anthropic, litellm, tiktoken"

run: setup ## start the gateway
	@$(BIN)/tieline run $(ARGS)

test: setup ## run the tests
	$(TESTS) $(ARGS)

slow: setup ## run the tests that `make test` leaves out for their time (minutes)
	$(BIN)/pytest -q -n auto $(ELSEWHERE) --ignore=tests/deploy -m slow $(ARGS)

image: setup ## build the image and chat in it, start the unit with systemd, render the manifests (needs root, podman, crun, mmdebstrap, kubectl; no part of CI)
	$(BIN)/pytest -q -n 0 -s -rs tests/deploy -m slow --timeout=1800 $(ARGS)

cluster: setup ## run the tests of the program with five processes on PostgreSQL for each, then kill and freeze some (20 minutes)
	TIELINE_TESTS_ON=cluster $(BIN)/pytest -q -n 2 tests/program -m "not slow" $(ARGS)
	$(BIN)/pytest -q -n 0 tests/cluster --ignore=tests/cluster/test_sweep.py

hostile: setup ## try every tool, parser, renderer and expression with hostile texts
	$(BIN)/pytest -q -n 2 tests/hostile $(ARGS)

check: $(CHECKS) ## ruff, mypy, import contracts, file sizes, vocabulary (in any order: make -j)

mypy: setup
	$(BIN)/mypy

ruff: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

contracts: setup
	$(BIN)/lint-imports

file-sizes: setup
	$(BIN)/python -m tools.file_sizes

vocabulary: setup
	$(BIN)/python -m tools.vocabulary

docs: setup ## links, headings and commands that the documentation names are there
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.requirements

site: $(SITE)/.ready ## build the documentation site into build/site (TIELINE_REPOSITORY=address of the sources)
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs --quiet build --strict $(ARGS)

$(SITE)/.ready: requirements/site.lock | $(STAMP)
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	@if test -x $(BIN)/uv; then \
		$(BIN)/uv pip sync --quiet --python $(SITE)/bin/python --require-hashes requirements/site.lock; \
	else \
		$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/site.lock; \
	fi
	@touch $@

fmt: setup ## format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lock: setup ## lock the requirements anew, with hashes and without addresses; make the table of models
	$(BIN)/uv lock --quiet --upgrade
	$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --no-annotate --no-dev -o requirements/run.lock > /dev/null
	$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --no-annotate --no-dev --extra postgresql --extra documents --extra oidc --extra otel -o requirements/image.lock > /dev/null
	$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --no-annotate --group dev --extra litellm --extra postgresql -o requirements/dev.lock > /dev/null
	echo "hatchling>=1.27" | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes \
		--no-header --no-annotate -o requirements/build.lock - > /dev/null
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes \
		--no-header --no-annotate -o requirements/site.lock requirements/site.in > /dev/null
	@rm -f uv.lock
	@$(MAKE) --no-print-directory setup
	$(BIN)/python -m tools.model_table

requirements: setup ## run the tests and print which requirements they carry
	$(TESTS) -m requirement
	$(BIN)/python -m tools.requirements

mutate: setup ## break the code in known ways, expect tests to notice (SAMPLE=n, SEED=n, NOTED=1, NAMES=…, JOBS=n, RESUME=1, SOUND=1, NOTE=1, TABLE=1)
	$(BIN)/python -m tools.mutate --sample $(or $(SAMPLE),0) $(if $(SEED),--seed $(SEED),) --jobs $(or $(JOBS),$(shell nproc)) \
		$(if $(NOTED),--noted,) $(if $(RESUME),--resume,) $(if $(SOUND),--sound,) $(if $(NOTE),--note,) $(if $(TABLE),--table,) $(NAMES)

release: setup ## build a release into dist/, try it, tell what remains (REHEARSE=1: of any commit, OFFLINE=1: fetch nothing)
	$(BIN)/python -m tools.release $(if $(REHEARSE),--rehearse,) $(if $(OFFLINE),--offline,)

wheels: setup ## build tieline and tieline-testing, the kit for authors of adapters, into build/dist
	rm -rf build/dist
	$(BIN)/uv build --quiet --wheel --out-dir build/dist .
	$(BIN)/uv build --quiet --wheel --out-dir build/dist packages/tieline-testing
	@ls build/dist

requirement: setup ## note a new requirement and begin a breakage for it (TITLE="what must hold", GROUP=Z)
	@$(BIN)/python -m tools.new_requirement --group $(or $(GROUP),Z) "$$TITLE"

faults: setup ## kill the running program, have platforms fail (SHORT=1: the short form, PLATFORM=1: these alone)
	$(BIN)/pytest -q -n 3 tests/faults$(if $(PLATFORM),/platforms,) --timeout=600 $(if $(SHORT),-m "not slow",) $(ARGS)

faults-cluster: setup ## kill one of several processes at each point that its role passes (40 minutes; SHORT=1: some)
	SHORT=$(SHORT) $(BIN)/pytest -q -n 2 tests/cluster/test_sweep.py tests/cluster/test_faults.py $(ARGS)

soak: setup ## talk for long with everything failing now and then (SIZE=conversations, TURNS=of each)
	$(BIN)/python -m tests.soak --conversations $(or $(SIZE),1000) --turns $(or $(TURNS),20) $(ARGS)

soak-cluster: setup ## talk for long with six processes, one killed every 20 s (MESSAGES=20000, SIZE=conversations)
	$(BIN)/python -m tests.soak --cluster --conversations $(or $(SIZE),1000) \
		--turns $(shell expr $(or $(MESSAGES),20000) / $(or $(SIZE),1000)) $(ARGS)

ladder: setup ## take 100,000 random lives through the stages of compaction
	LADDER_RUNS=$(or $(RUNS),100000) $(BIN)/pytest -q tests/agent/compaction/test_random_lives.py --timeout=0 $(ARGS)

e2e: setup ## drive the program as people do, in a real browser too (SHORT=1 for the short form)
	$(BIN)/pytest -q -n 2 tests/e2e --timeout=300 $(if $(SHORT),-m "not slow",) $(ARGS)

pictures: setup ## play the scenes that the documentation shows, and draw them anew (needs chromium; ARGS=--all)
	$(BIN)/python -m tools.drawings
	$(BIN)/python -m tools.set_up_steps
	$(BIN)/python -m tools.pictures $(ARGS)

zones: setup ## compare schedules with an oracle in every time zone, over ten years (minutes)
	$(BIN)/pytest -q -s tests/gateway/scheduler/triggers/test_zones_oracle.py -m slow --timeout=7200 $(ARGS)

foreign: setup ## models, MCP and the doors for programs against what others wrote (needs npm; no part of CI)
	@command -v npm > /dev/null || { echo "make foreign needs npm, which is not installed"; exit 1; }
	@set -e; \
	cmp -s tests/foreign/npm.txt .foreign/npm.txt || { \
		npm install --prefix .foreign --no-audit --no-fund --loglevel=error $$(cat tests/foreign/npm.txt); \
		cp tests/foreign/npm.txt .foreign/; }; \
	for list in pypi pypi-sdk1 pypi-clients; do cmp -s tests/foreign/$$list.txt .foreign/$$list.txt || { \
		$(PYTHON) -m venv .foreign/$$list; \
		.foreign/$$list/bin/pip install -q --disable-pip-version-check -r tests/foreign/$$list.txt; \
		cp tests/foreign/$$list.txt .foreign/; }; done
	$(BIN)/pytest -q tests/foreign $(ARGS)

bench: setup ## measure this gateway and the floor (ARGS=measures; about 20 minutes)
	$(BIN)/python -m tests.bench $(ARGS)

bench-peers: setup ## the same with other gateways, each installed below .peers/ (about an hour)
	$(BIN)/python -m tests.bench.peers.install $(PEERS)
	$(BIN)/python -m tests.bench --peers $(ARGS)

bench-page: setup ## make docs/performance*.md of the newest run (RUN=folder, ARGS=--keep: beside what is there)
	$(BIN)/python -m tests.bench.report --publish $(RUN) $(ARGS)

clean: ## remove what was built
	rm -rf $(VENV) .foreign .peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two commands do all the set-up: `make run` and `make test`. `make help` lists the rest.

CARGO ?= cargo
RELEASE := target/release/thalweg
SHELL := /bin/bash

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

.PHONY: setup
setup: ## Install what the build needs and is missing (Debian and Ubuntu; elsewhere it says what to install)
	@./tools/setup build

.PHONY: build
build: setup ## Build the release binary
	$(CARGO) build --release -p thalweg

.PHONY: run
run: build ## Serve the quickstart example on 127.0.0.1:8080; Ctrl-C ends it
	@echo
	@echo "Thalweg serves http://127.0.0.1:8080/ with examples/quickstart.cfg. Try, in another terminal:"
	@echo "    curl -i http://127.0.0.1:8080/hello"
	@echo "Ctrl-C ends it. The access log follows."
	@echo
	@exec $(RELEASE) --quickstart

.PHONY: test
test: setup lint ## Everything CI runs: formatting, lints, unit, property, black-box and fuzz-smoke tests
	./tools/test

.PHONY: lint
lint: ## Formatting and clippy, without warnings; 64-bit ARM too, where its target is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@./tools/check-aarch64

SIMULATE := target/simulate/thalweg-simulate

.PHONY: reload-storm
reload-storm: setup ## Reload 500 times while everybody is served, and print figures; beside HAProxy where it is installed (RELOADS=500)
	$(CARGO) build --profile quick -p thalweg
	RELOAD_STORM=$(or $(RELOADS),500) THALWEG_TEST_PROGRAM=$(CURDIR)/target/quick/thalweg \
		$(CARGO) test -p thalweg --test reload_storm -- --nocapture

.PHONY: unlike-servers
unlike-servers: setup ## Ten servers of which one is slow, fails or refuses: p99 and errors for each way to choose; beside HAProxy and nginx (REQUESTS=1600)
	$(CARGO) build --profile quick -p thalweg
	UNLIKE_SERVERS=$(or $(REQUESTS),1600) THALWEG_TEST_PROGRAM=$(CURDIR)/target/quick/thalweg \
		$(CARGO) test -p thalweg --test unlike_servers -- --nocapture

.PHONY: h2-floods
h2-floods: setup ## Floods of HTTP/2 clients, seconds of each: what each costs, and when its connection ends (FLOOD_SECONDS=3)
	$(CARGO) build --profile quick -p thalweg
	H2_FLOODS=$(or $(FLOOD_SECONDS),3) THALWEG_TEST_PROGRAM=$(CURDIR)/target/quick/thalweg \
		$(CARGO) test -p thalweg --test h2_floods what_floods_cost -- --nocapture

.PHONY: chaos
chaos: setup ## Ten minutes of servers that are killed, stall, reset, lie, get slow and flap, under load (SECONDS=600, SEED=1), with each driver
	$(CARGO) build --profile quick -p thalweg
	CHAOS_SECONDS=$(or $(SECONDS),600) CHAOS_SEED=$(or $(SEED),1) \
		$(CARGO) test --profile quick -p thalweg --test chaos -- --nocapture

.PHONY: simulate
simulate: setup ## Play the whole proxy in the simulated network (SEEDS=2000, FIRST=1; SEED=n plays one and tells all of it)
	$(CARGO) build --profile simulate -p thalweg-simulate
	@$(foreach v,SEED SEEDS FIRST,$(if $($(v)),$(v)=$($(v)))) $(SIMULATE)

.PHONY: simulate-planted
simulate-planted: setup ## Plant bugs, one at a time, and show the seed that finds each (BUG=name for one; with SEED=n all of it)
	RUSTFLAGS="--cfg planted_bugs" CARGO_TARGET_DIR=target/planted $(CARGO) build --profile simulate -p thalweg-simulate
	@PLANTED=$(BUG) $(foreach v,SEED SEEDS FIRST,$(if $($(v)),$(v)=$($(v)))) target/planted/simulate/thalweg-simulate

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while (needs a nightly toolchain and cargo-fuzz; FUZZ_SECONDS=60)
	./tools/fuzz

.PHONY: bench
bench: setup ## Measure against the peers installed; writes target/bench/serving.tsv and prints ratios (QUICK=1: under three minutes; NEAR=100: turns with the cores within 100 ns of each other only)
	./tools/bench $(if $(QUICK),--quick) $(if $(NEAR),--near $(NEAR))

.PHONY: bench-sweep
bench-sweep: setup ## Measure tunables over a range of values; writes target/bench/sweep.tsv
	./tools/bench sweep

.PHONY: bench-runtime
bench-runtime: setup ## Measure the scheduler against other runtimes; writes target/bench/runtime.tsv
	$(CARGO) run --release -p thalweg-bench-runtime

.PHONY: deb
deb: build ## Lay out a Debian package below target/deb, and pack it where dpkg-deb is installed
	./tools/deb

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean

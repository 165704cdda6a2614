# What each target does is said beside it; `make` alone lists them.
export CARGO_TARGET_DIR ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/tidemill/target

PYTHON ?= python3

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

demo: ## build, play two years of four wind turbines through continuous views and four databases, and go on serving
	@command -v cargo >/dev/null || { echo 'make demo needs a Rust toolchain: see https://rustup.rs'; exit 1; }
	cargo run --release --locked --bin tidemill -- demo

test: ## build and run all tests, with the client libraries and the PostgreSQL that are there
	@crates/tidemill/tests/clients/fetch.sh
	cargo test --workspace --locked

bench: ## measure beside PostgreSQL 15; CASE=copy for some, QUICK=1 for a short run, see docs/benchmark.md
	cargo build --release --locked --bin tidemill
	$(PYTHON) -B bench/run.py --binary $(CARGO_TARGET_DIR)/release/tidemill --results $(dir $(CARGO_TARGET_DIR))bench \
		$(if $(CASE),--case $(CASE)) $(if $(ROWS),--rows $(ROWS)) $(if $(REPEATS),--repeats $(REPEATS)) $(if $(QUICK),--quick)

fold: ## measure how fast events are folded into a view, beside DataFusion's batch aggregation; see docs/benchmark.md
	cargo bench --locked --profile optimized -p tidemill -p tidemill-stream --bench fold

instructions: ## count the instructions a row of both with callgrind (apt-get install valgrind)
	cargo bench --locked --profile optimized -p tidemill -p tidemill-stream --bench fold -- instructions

crash: ## kill servers and disks at every point they can be killed at; SECONDS=300 for the part with real servers
	TIDEMILL_TEST_EVERYTHING=1 cargo test --locked -p tidemill-stream --test all -- --nocapture
	TIDEMILL_CRASH_SECONDS=$(or $(SECONDS),120) cargo test --locked -p tidemill --test wire crash -- --nocapture

explore: ## compare random queries, other ones each time, with PostgreSQL's answers; SECONDS=300 for each kind
	TIDEMILL_EXPLORE_SECONDS=$(or $(SECONDS),300) cargo test --locked -p tidemill --test wire answer_as_postgres -- --nocapture

fuzz: ## throw made-up bytes at every decoder; TARGET=sql for one of them, SECONDS=180 for each
	@command -v cargo-fuzz >/dev/null || { echo 'make fuzz needs cargo-fuzz: cargo install cargo-fuzz'; exit 1; }
	cp Cargo.lock fuzz/Cargo.lock
	python3 fuzz/seed.py
	set -e; cd fuzz; for target in $(or $(TARGET),wire sql value copy log run); do \
		cargo fuzz run --sanitizer none $$target -- -max_total_time=$(or $(SECONDS),180) -timeout=10 -rss_limit_mb=4096; \
	done

check: ## formatting and lints, and whether the fuzz targets still build
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked
	cp Cargo.lock fuzz/Cargo.lock
	cargo check --manifest-path fuzz/Cargo.toml

.PHONY: help demo test bench fold instructions crash explore fuzz check
